# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Keeps the image behind a model's input on the GPU: frames are uploaded whole and compared with it there."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray

from cacheinf_ros.cache_map import CacheMap
from cacheinf_ros.engine.buffers import MapBuffer, move_pixels
from cacheinf_ros.engine.delta_threshold import DeltaThreshold
from cacheinf_ros.engine.gpu.cuda_graph import captured
from cacheinf_ros.engine.gpu.frame_kernels import EVERYTHING, TOUCH_ALL, TOUCH_MARGIN, write_frame
from cacheinf_ros.engine.gpu.frame_taps import FrameTaps
from cacheinf_ros.engine.gpu.kernel_launches import launch
from cacheinf_ros.engine.gpu.set_launches import Action
from cacheinf_ros.engine.preprocess import MARGIN, Preprocessor
from cacheinf_ros.memory import aligned

Image = NDArray[np.uint8]
_PIXELS = 1024  # handled by one program of the kernel
_ALIGNMENT = 16  # bytes, of each array that the kernel reads
_FLAG_BYTES = 4


class FrameOnDevice:
    """Writes frames into the map of a model's input.

    Attributes:
        composed, seen: uint8 [height, width, 3] on the device: see :class:`InputWriter`.
        changed: uint8 [height * width] on the device: 1 for each pixel that the last frame changed.
        count: int32 [1] on the device: how many pixels the last frame changed.
    """

    def __init__(self, preprocessor: Preprocessor, target: MapBuffer, *, shares_memory: bool) -> None:
        """Allocate the images and marks on the device that holds the target.

        Args:
            preprocessor: says how frames are placed, resized and normalised.
            target: the map of the input.
            shares_memory: whether the device reads pinned CPU memory as fast as its own, so that frames need not be
                copied to it.
        """
        self._preprocessor = preprocessor
        self._target = target
        self._device = target.pixels.device
        self._shares_memory = shares_memory
        self.composed = torch.zeros((*target.size, 3), dtype=torch.uint8, device=self._device)
        self.seen = torch.zeros_like(self.composed)
        self.changed = torch.zeros(target.size[0] * target.size[1], dtype=torch.uint8, device=self._device)
        self.count = torch.zeros(1, dtype=torch.int32, device=self._device)
        self._table = torch.from_numpy(preprocessor.table).to(self._device)
        self._limits = torch.zeros(4, device=self._device)
        self._launch: _Launch | None = None

    def set_threshold(self, delta: DeltaThreshold) -> None:
        """Hold back a pixel's changes below this threshold from now on."""
        weight = np.ones(3) if delta.weight is None else delta.weight.astype(np.float64) ** 2
        self._limits.copy_(torch.tensor([delta.squared_threshold, *weight.tolist()]))

    def write(self, image: Image, cache_map: CacheMap | None, *, with_margin: bool, everything: bool) -> None:
        """Write those pixels that depend on an active block and differ, without waiting for the device to do it.

        Args:
            image: uint8 [height, width, 3], as the camera gives it.
            cache_map: which blocks are active; None: all.
            with_margin: whether the margin, which shows nothing of the frame, is written too.
            everything: whether pixels that depend on an active block are written even where they do not differ.
        """
        launch = self._launch_for(image, cache_map)
        if self._device.type == "cuda":
            torch.cuda.current_stream(self._device).synchronize()  # the last frame may still be uploading
        np.copyto(launch.frame, image)
        if cache_map is not None:
            np.logical_not(cache_map.reusable, out=launch.blocks.view(np.bool_))
        touches_all = cache_map is None or not cache_map.reusable.any()
        flags = everything * EVERYTHING.value | touches_all * TOUCH_ALL.value | with_margin * TOUCH_MARGIN.value
        launch.flags[:] = flags
        launch.run(self._device)

    def write_composed(self) -> None:
        """Write the whole composed image to the input, and remember it as seen."""
        levels = self.composed.view(-1, 3).long()
        for channel, source in enumerate(self._preprocessor.order):
            self._target.pixels[:, channel] = self._table[channel][levels[:, source]].to(self._target.pixels.dtype)
        self.seen.copy_(self.composed)

    def move(self, dx: int, dy: int) -> None:
        """Move the images right by dx and down by dy pixels; what enters at the border keeps stale values."""
        for image in (self.composed, self.seen):
            move_pixels(image, dx, dy)

    def _launch_for(self, image: Image, cache_map: CacheMap | None) -> _Launch:
        """Return the launch for frames and blocks of these sizes.

        Only the latest is kept, as a camera's frames rarely change their size.
        """
        size = (image.shape[0], image.shape[1])
        launch = self._launch
        if launch is None or launch.image_size != size or not launch.fits(cache_map):
            cache_map = cache_map or CacheMap.nothing(size, max(size))
            launch = self._launch = self._prepared(cache_map)
        return launch

    def _prepared(self, cache_map: CacheMap) -> _Launch:
        place = self._preprocessor.place(cache_map.image_size)
        taps, table = FrameTaps.of(place), self._preprocessor.taps_of_blocks(cache_map)
        positions = [self._put(each) for each in (table.rows, table.columns)]
        mixes = [self._put(each) for mix in (taps.rows, taps.columns) for each in (mix.positions, mix.weights)]
        shapes = [(_FLAG_BYTES,), cache_map.reusable.shape, (*cache_map.image_size, 3)]
        sizes = [aligned(int(np.prod(shape)), _ALIGNMENT) for shape in shapes]
        staged = torch.empty(sum(sizes), dtype=torch.uint8, pin_memory=self._device.type == "cuda")
        there = staged if self._shares_memory else torch.empty_like(staged, device=self._device)
        flags, blocks, frame = there.split(sizes)
        pixels, width = len(self.changed), self._target.size[1]

        def run() -> None:
            if there is not staged:
                there.copy_(staged, non_blocking=True)
            self.count.zero_()
            launch(
                write_frame, (-(-pixels // _PIXELS),),
                frame, blocks, flags.view(torch.int32), *positions, *mixes, taps.scale,
                self._table, self._limits, self.composed, self.seen,
                self._target.pixels, self._target.pixels.stride(0), self.changed, self.count,
                OUT_PIXELS=pixels, WIDTH=width, FRAME_WIDTH=cache_map.image_size[1],
                BLOCKS_X=cache_map.reusable.shape[1], TAPS_Y=table.rows.shape[1], TAPS_X=table.columns.shape[1],
                ROWS=taps.rows.positions.shape[1], COLUMNS=taps.columns.positions.shape[1], BY_AREA=taps.by_area,
                HALVES_UP=taps.halves_up, MARGIN=MARGIN, FIRST=self._preprocessor.order[0], PIXELS=_PIXELS,
                enable_fp_fusion=False,
            )  # fmt: skip

        views = (
            part.numpy()[: int(np.prod(shape))].reshape(shape)
            for part, shape in zip(staged.split(sizes), shapes, strict=True)
        )
        own_flags, own_blocks, own_frame = views
        return _Launch(
            image_size=cache_map.image_size, block_size=cache_map.block_size, launch=run,
            flags=own_flags.view(np.int32), blocks=own_blocks, frame=own_frame,
        )  # fmt: skip

    def _put(self, values: NDArray[np.generic]) -> torch.Tensor:
        return torch.from_numpy(values).to(self._device)


@dataclass(slots=True, kw_only=True, eq=False)
class _Launch:
    """Writes frames of one size, from memory out of which they are uploaded.

    Attributes:
        image_size: (height, width) of the frames.
        block_size: the side of their blocks in pixels.
        flags: int32 [1]: the flags of :mod:`.frame_kernels` for the next frame.
        blocks: uint8 [rows, columns], 1 where active.
        frame: uint8 [height, width, 3], the next frame.
        launch: uploads and compares the frame, with the same launches every time.
    """

    image_size: tuple[int, int]
    block_size: int
    flags: NDArray[np.int32]
    blocks: NDArray[np.uint8]
    frame: Image
    launch: Action
    _graph: torch.cuda.CUDAGraph | None = field(default=None, init=False)
    _captures: bool = field(default=True, init=False)

    def fits(self, cache_map: CacheMap | None) -> bool:
        """Tell whether a cache map has blocks of the size that this launch is for; no map at all always fits."""
        return cache_map is None or cache_map.block_size == self.block_size

    def run(self, device: torch.device) -> None:
        """Launch the kernels: on a GPU one by one the first time, to compile them, and as one graph from then on."""
        if self._graph is not None:
            self._graph.replay()
            return
        self.launch()
        if device.type == "cuda" and self._captures:
            self._captures = False
            self._graph = captured(self.launch, "the comparison of a frame")
