# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Cached feature maps as lists of pixels, each with all of its channels."""

from __future__ import annotations

import mmap
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
import torch

from cacheinf_ros.geometry import overlap
from cacheinf_ros.graph.ir import Levels
from cacheinf_ros.memory import MIB, aligned

Size = tuple[int, int]  # (height, width)
_ALIGNMENT = 64  # bytes: a cache line
_HUGE_PAGE = 1 << 21  # bytes
_BEHIND = 64  # bytes that kernels may read beyond the last value
_UNSEEN = 1e18  # far from every value; its square is still a number
_UNSEEN_HALF = 6e4  # as far as float16 goes


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MapBuffer:
    """A feature map, possibly a range of channels of a wider one.

    Attributes:
        pixels: [height * width, channels], floats, or uint8 where they are levels; stride(0) is the pitch.
        size: (height, width).
        levels: what the levels stand for; None: the map holds floats.
    """

    pixels: torch.Tensor
    size: Size
    levels: Levels | None = None

    @classmethod
    def allocate(cls, size: Size, channels: int, device: torch.device, levels: Levels | None = None) -> MapBuffer:
        """Allocate a zeroed map of levels or float32 in memory of its own, aligned to cache lines."""
        shape = MapShape(size=size, channels=channels, levels=levels)
        block = torch.zeros(shape.bytes + _ALIGNMENT + _BEHIND, dtype=torch.uint8, device=device)
        return cls.at(block, -block.data_ptr() % _ALIGNMENT, shape)

    @classmethod
    def at(cls, block: torch.Tensor, offset: int, shape: MapShape) -> MapBuffer:
        """Place a map in a block of memory, uint8, from a byte offset on."""
        values = block[offset : offset + shape.bytes].view(shape.dtype)
        return cls(pixels=values.view(-1, shape.channels), size=shape.size, levels=shape.levels)

    def channels(self, first: int, count: int) -> MapBuffer:
        """View some of the channels at all pixels."""
        return MapBuffer(pixels=self.pixels[:, first : first + count], size=self.size, levels=self.levels)

    def part(self, camera: int, cameras: int) -> MapBuffer:
        """View the map of one of several cameras, whose maps lie below one another in this one."""
        count = len(self.pixels) // cameras
        pixels = self.pixels[camera * count : (camera + 1) * count]
        return MapBuffer(pixels=pixels, size=(self.size[0] // cameras, self.size[1]), levels=self.levels)

    @property
    def image(self) -> torch.Tensor:
        """The map as a tensor [1, channels, height, width], a view in channels_last order."""
        return self.pixels.unflatten(0, self.size).permute(2, 0, 1).unsqueeze(0)

    def move(self, dx: int, dy: int) -> None:
        """Move the picture by whole pixels; what enters at the border keeps stale values."""
        move_pixels(self.pixels.unflatten(0, self.size), dx, dy)

    def expose(self, dx: int, dy: int) -> None:
        """Mark the pixels that entered in a move by (dx, dy), so that no comparison holds their change back."""
        image, (height, width) = self.pixels.unflatten(0, self.size), self.size
        unseen = _UNSEEN_HALF if self.pixels.dtype is torch.float16 else _UNSEEN
        image[: max(0, dy)] = image[height - max(0, -dy) :] = unseen
        image[:, : max(0, dx)] = image[:, width - max(0, -dx) :] = unseen


@dataclass(frozen=True, slots=True, kw_only=True)
class MapShape:
    """The size and the type of a map, which say how much memory it needs.

    Attributes:
        size: (height, width).
        levels: what the levels stand for; None: the map holds floats.
        floats: the type of the floats, where the map holds floats.
    """

    size: Size
    channels: int
    levels: Levels | None = None
    floats: torch.dtype = torch.float32

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of the map's values."""
        return self.floats if self.levels is None else torch.uint8

    @property
    def bytes(self) -> int:
        """The number of bytes that the map takes."""
        return self.size[0] * self.size[1] * self.channels * self.dtype.itemsize


def allocate_maps(shapes: Sequence[MapShape], device: torch.device) -> list[MapBuffer]:
    """Allocate zeroed maps, aligned to cache lines, one behind the other in one block."""
    sizes = [aligned(shape.bytes, _ALIGNMENT) for shape in shapes]
    ends = np.cumsum(sizes, dtype=np.int64).tolist()
    return maps_at([0, *ends[:-1]], ends[-1], shapes, device) if shapes else []


def maps_at(offsets: Sequence[int], size: int, shapes: Sequence[MapShape], device: torch.device) -> list[MapBuffer]:
    """Allocate a zeroed block of ``size`` bytes, and place maps at these offsets; they may overlap."""
    block = _zeros(size + _BEHIND, device)
    return [MapBuffer.at(block, offset, shape) for offset, shape in zip(offsets, shapes, strict=True)]


def _zeros(count: int, device: torch.device) -> torch.Tensor:
    """Allocate zeros, uint8 [count]; on the CPU in huge pages where there are some, as maps are read all over."""
    if device.type != "cpu" or not hasattr(mmap, "MADV_HUGEPAGE"):
        return torch.zeros(count, dtype=torch.uint8, device=device)
    try:
        memory = mmap.mmap(-1, aligned(count, _HUGE_PAGE), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    except OSError as error:
        raise MemoryError(f"no room for {count / MIB:.0f} MiB of feature maps") from error
    with suppress(OSError):  # a kernel without huge pages uses small ones
        memory.madvise(mmap.MADV_HUGEPAGE)
    return torch.frombuffer(memory, dtype=torch.uint8, count=count)


def move_pixels(pixels: torch.Tensor, dx: int, dy: int) -> None:
    """Move [height, width, channels] right by dx and down by dy, in place; what enters keeps stale values."""
    height, width = pixels.shape[:2]
    if abs(dx) >= width or abs(dy) >= height or (dx, dy) == (0, 0):
        return
    before, after = overlap((height, width), dx, dy)
    pixels[after] = pixels[before].clone()
