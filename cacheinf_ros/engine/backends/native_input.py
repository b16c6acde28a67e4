# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Writes frames into the model's input by compiled code."""

from __future__ import annotations

import ctypes
from ctypes import c_double, c_float, c_int32

import numpy as np
from numpy.typing import NDArray

from cacheinf_ros.cache_map import Motion
from cacheinf_ros.engine.buffers import MapBuffer
from cacheinf_ros.engine.execution.active import ActiveSet
from cacheinf_ros.engine.execution.native import c_tap_table
from cacheinf_ros.engine.execution.propagation import TapTable
from cacheinf_ros.engine.input import Image, InputWriter
from cacheinf_ros.engine.kernels.abi import CInput, CView
from cacheinf_ros.engine.preprocess import Preprocessor
from cacheinf_ros.geometry.painting import TILE


class NativeInputWriter(InputWriter):
    """See :class:`InputWriter`."""

    def __init__(self, preprocessor: Preprocessor, target: MapBuffer, library: ctypes.CDLL, threads: int) -> None:
        """``threads``: the ``ci_threads``, which live as long as this object is used."""
        super().__init__(preprocessor, target)
        self._library = library
        self._threads = threads
        height, width = preprocessor.size
        self._tiles = np.empty((-(-height // TILE), -(-width // TILE)), np.uint8)
        self._scratch = np.empty(0, np.uint8)

    def write(self, resized: Image, changed: ActiveSet, *, everything: bool) -> None:
        """See :meth:`InputWriter.write`."""
        arguments = self._c_input()
        self._library.ci_write_input(
            self._threads, ctypes.byref(arguments), resized.ctypes.data, self._touched.address, changed.address,
            everything,
        )  # fmt: skip

    def paint(
        self, resized: Image, motion: Motion, unseen: NDArray[np.uint8] | None, changed: ActiveSet, *, everything: bool
    ) -> None:
        """See :meth:`InputWriter.paint`."""
        arguments, view = self._c_input(), self._c_view(motion, unseen)
        self._library.ci_paint_input(
            self._threads, ctypes.byref(arguments), resized.ctypes.data, ctypes.byref(view), changed.address,
            everything,
        )  # fmt: skip

    def _propagate(self, table: TapTable, blocks: ActiveSet) -> None:
        needed = blocks.size[0] * self._preprocessor.size[1]
        if len(self._scratch) < needed:
            self._scratch = np.empty(needed, np.uint8)
        c = c_tap_table(table)
        self._library.ci_propagate(ctypes.byref(c), blocks.address, self._touched.address, self._scratch.ctypes.data)

    def _c_view(self, motion: Motion, unseen: NDArray[np.uint8] | None) -> CView:
        return CView(
            to_frame=(c_double * 9)(*motion.matrix.ravel()),
            back=(c_double * 9)(*motion.inverse().matrix.ravel()),
            marked=self._touched.mask.ctypes.data,
            unseen=None if unseen is None else unseen.ctypes.data,
            tiles=self._tiles.ctypes.data,
        )

    def _c_input(self) -> CInput:
        weight = self._delta.weight
        return CInput(
            height=self._preprocessor.size[0],
            width=self._preprocessor.size[1],
            order=(c_int32 * 3)(*self._preprocessor.order),
            threshold=self._delta.squared_threshold,
            weight=(c_float * 3)(*((1.0,) * 3 if weight is None else (float(w) ** 2 for w in weight))),
            table=self._preprocessor.table.ctypes.data,
            composed=self.composed.ctypes.data,
            seen=self.seen.ctypes.data,
            out=self._target.pixels.data_ptr(),
            pitch=self._target.pixels.stride(0),
        )
