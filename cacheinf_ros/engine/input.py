# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The model's input as the cache holds it: which of its pixels a frame changes."""

from __future__ import annotations

import ctypes
from ctypes import Structure, c_double, c_float, c_int, c_int32, c_int64, c_void_p

import numpy as np
import torch
from numpy.typing import NDArray

from cacheinf_ros.cache_map import CacheMap, Motion
from cacheinf_ros.engine.buffers import MapBuffer, move_pixels
from cacheinf_ros.engine.execution.active import ActiveSet
from cacheinf_ros.engine.execution.native import c_reach
from cacheinf_ros.engine.execution.propagation import Footprint, propagate
from cacheinf_ros.engine.kernels import Kernels, NativeKernels
from cacheinf_ros.engine.preprocess import Preprocessor
from cacheinf_ros.engine.truncation import Criterion, Truncation
from cacheinf_ros.geometry import TILE, Brush

Image = NDArray[np.uint8]


class CInput(Structure):
    """``ci_input``."""

    _fields_ = [
        ("height", c_int32), ("width", c_int32), ("order", c_int32 * 3), ("threshold", c_float),
        ("weight", c_float * 3), ("reserved", c_float), ("table", c_void_p), ("composed", c_void_p),
        ("seen", c_void_p), ("out", c_void_p), ("pitch", c_int64),
    ]  # fmt: skip


class CView(Structure):
    """``ci_view``."""

    _fields_ = [
        ("to_frame", c_double * 9), ("back", c_double * 9), ("marked", c_void_p), ("unseen", c_void_p),
        ("tiles", c_void_p),
    ]  # fmt: skip


class InputWriter:
    """Writes the pixels of a frame that a cache map leaves to compute, where they differ from what is there.

    Attributes:
        composed: uint8 [height, width, 3]: the frame where it was touched, what was there before elsewhere; exact
            execution would start from it.
        seen: uint8 [height, width, 3]: what the target holds, before it was normalised.
    """

    def __init__(self, preprocessor: Preprocessor, target: MapBuffer, kernels: Kernels) -> None:
        self._preprocessor = preprocessor
        self._target = target
        self.composed = np.zeros((*preprocessor.size, 3), np.uint8)
        self.seen = np.zeros_like(self.composed)
        self._touched = ActiveSet(preprocessor.size)
        height, width = preprocessor.size
        self._tiles = np.empty((-(-height // TILE), -(-width // TILE)), np.uint8)
        self._kernels = kernels if isinstance(kernels, NativeKernels) else None
        self._brush = Brush(preprocessor.size) if self._kernels is None else None
        if self._kernels is not None:
            _declare(self._kernels.library)
        self._blocks: tuple[tuple[object, ...], ActiveSet, Footprint] | None = None
        self.truncate(None)

    def truncate(self, truncation: Truncation | None) -> None:
        """What change of a pixel is too small to be passed on; None: none at all. Its criterion must be ENERGY."""
        self._truncation = truncation or Truncation(threshold=0.0, criterion=Criterion.ENERGY)
        assert self._truncation.criterion is Criterion.ENERGY

    def touch_all(self) -> None:
        """The whole frame counts."""
        self._touched.fill()

    def touch_pixels(self, mask: NDArray[np.uint8]) -> None:
        """Only these pixels of the input count; uint8 [height, width], 0 or 1."""
        np.copyto(self._touched.mask, mask)
        self._touched.use_mask()

    def touch(self, cache_map: CacheMap, *, with_margin: bool = False) -> None:
        """Only what depends on an active pixel of the frame counts, and with ``with_margin`` what shows no frame."""
        blocks, reach = self._prepared(cache_map)
        np.logical_not(cache_map.reusable, out=blocks.mask.view(np.bool_))
        if self._kernels is None:
            blocks.use_mask()
            propagate(reach, blocks, self._touched)
        else:
            c = c_reach(reach)
            address = self._scratch.ctypes.data
            self._kernels.library.ci_grow(ctypes.byref(c), blocks.address, self._touched.address, address)
        place = self._preprocessor.place(cache_map.image_size)
        if with_margin and place.has_margin:
            margin = np.ones(self._touched.size, np.bool_)
            margin[place.content] = False
            self._touched.mask[margin] = 1
            self._touched.use_mask()

    def write(self, resized: Image, changed: ActiveSet, *, everything: bool) -> None:
        """Write the touched pixels that differ from what is there (with ``everything`` all touched ones); say which."""
        if self._kernels is None:
            self._write(resized, changed, everything=everything)
            return
        arguments = self._c_input()
        self._kernels.library.ci_write_input(
            self._kernels.threads, ctypes.byref(arguments), resized.ctypes.data, self._touched.address, changed.address,
            everything,
        )  # fmt: skip

    def paint(
        self, resized: Image, motion: Motion, unseen: NDArray[np.uint8] | None, changed: ActiveSet, *, everything: bool
    ) -> None:
        """The same where the camera has moved: the pixels that show, after the motion, any that are touched.

        Args:
            motion: input -> frame, in pixels of the input.
            unseen: see :meth:`Brush.paint`; the frame's border, continued, is a first guess.
        """
        if self._kernels is None:
            assert self._brush is not None
            painted = np.empty_like(resized)
            touched = self._brush.paint(resized, self._touched.mask, motion, painted, unseen)
            np.copyto(self._touched.mask, touched)
            self._touched.use_mask()
            self._write(painted, changed, everything=everything)
            return
        arguments, view = self._c_input(), self._c_view(motion, unseen)
        self._kernels.library.ci_paint_input(
            self._kernels.threads, ctypes.byref(arguments), resized.ctypes.data, ctypes.byref(view), changed.address,
            everything,
        )  # fmt: skip

    def move(self, dx: int, dy: int) -> None:
        """Move the picture by whole pixels; what enters at the border keeps stale values."""
        for image in (self.composed, self.seen):
            move_pixels(torch.from_numpy(image), dx, dy)

    def _prepared(self, cache_map: CacheMap) -> tuple[ActiveSet, Footprint]:
        key = (cache_map.image_size, cache_map.block_size)
        if self._blocks is None or self._blocks[0] != key:
            shape = (cache_map.reusable.shape[0], cache_map.reusable.shape[1])
            self._blocks = (key, ActiveSet(shape), self._preprocessor.reach_of_blocks(cache_map))
            self._scratch = np.empty(shape[0] * self._preprocessor.size[1], np.uint8)
        return self._blocks[1:]

    def _write(self, resized: Image, changed: ActiveSet, *, everything: bool) -> None:
        touched = self._touched.mask.view(np.bool_)
        self.composed[touched] = resized[touched]
        if not everything:
            values, seen = (self._preprocessor.normalise(image) for image in (resized, self.seen))
            change = self._truncation.change(values.reshape(-1, 3), seen.reshape(-1, 3)).reshape(touched.shape)
            touched = touched & (change > self._truncation.threshold)
        self.seen[touched] = resized[touched]
        np.copyto(changed.mask, touched)
        changed.use_mask()
        rows = torch.from_numpy(changed.rows).long().to(self._target.rows.device)
        normalised = torch.from_numpy(self._preprocessor.normalise(resized[touched]))
        self._target.rows[rows] = normalised.to(rows.device)

    def _c_view(self, motion: Motion, unseen: NDArray[np.uint8] | None) -> CView:
        return CView(
            to_frame=(c_double * 9)(*motion.matrix.ravel()),
            back=(c_double * 9)(*motion.inverse().matrix.ravel()),
            marked=self._touched.mask.ctypes.data,
            unseen=None if unseen is None else unseen.ctypes.data,
            tiles=self._tiles.ctypes.data,
        )

    def _c_input(self) -> CInput:
        weight = self._truncation.weight
        return CInput(
            height=self._preprocessor.size[0],
            width=self._preprocessor.size[1],
            order=(c_int32 * 3)(*self._preprocessor.order),
            threshold=self._truncation.squared_threshold,
            weight=(c_float * 3)(*((1.0,) * 3 if weight is None else (float(w) ** 2 for w in weight))),
            table=self._preprocessor.table.ctypes.data,
            composed=self.composed.ctypes.data,
            seen=self.seen.ctypes.data,
            out=self._target.rows.data_ptr(),
            pitch=self._target.rows.stride(0),
        )


def _declare(library: ctypes.CDLL) -> None:
    library.ci_grow.restype = library.ci_write_input.restype = library.ci_paint_input.restype = None
    library.ci_grow.argtypes = [c_void_p] * 4
    library.ci_write_input.argtypes = library.ci_paint_input.argtypes = [c_void_p] * 5 + [c_int]
