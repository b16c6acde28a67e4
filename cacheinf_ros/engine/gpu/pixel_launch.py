# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Launches kernels on listed pixels, and chooses the tiles in which they work."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from cacheinf_ros.engine.gpu.kernel_launches import launch

SMALLEST_SIDE = 16
"""The smallest side of a matrix product on Tensor Cores."""
_FEW, _MANY = 256, 1024  # pixels of one program, in kernels that go over whole masks
_SMALL = 1 << 17  # masks below this take the few: in larger ones too many programs would wait to add to one count
_INTERPRETED_PIXELS = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Tiles:
    """The largest tile of one program, in powers of two, and how a matrix product is computed; chosen on an H200.

    Attributes:
        pixels: the listed pixels in a tile.
        columns: the output channels in a tile.
        depth: how many bytes of a product's depth are multiplied at a time.
        stages: the length of the software pipeline: pieces of the depth in flight, one of which is being multiplied.
        warps: the warps of a program that computes a product.
        most_per_multiprocessor: the most programs of a product that are started for each multiprocessor of the GPU.
    """

    pixels: int = 64
    columns: int = 64
    depth: int = 128
    stages: int = 4
    warps: int = 4
    most_per_multiprocessor: int = 4

    @classmethod
    def of_floats(cls, floats: torch.dtype) -> Tiles:
        """Choose tiles for a GPU; float32 takes smaller ones, as its products in three parts need more registers."""
        return cls(pixels=32, stages=3) if floats is torch.float32 else cls()

    @classmethod
    def interpreted(cls) -> Tiles:
        """Choose tiles for Triton's interpreter, whose time depends on the number of programs, not of values."""
        return cls(pixels=_INTERPRETED_PIXELS, columns=256, depth=256)


def power_of_two(count: int, *, least: int = 1) -> int:
    """Return the smallest power of two that is not below ``count``, or ``least`` where that is larger."""
    return max(least, 1 << (max(1, count) - 1).bit_length())


def product_depth(inputs: int, taps: int, tiles: Tiles, value_bytes: int) -> tuple[bool, int]:
    """Choose how a convolution is multiplied: (whether each tap's channels on their own, how many values at a time).

    Args:
        inputs: the input channels of a group; where they are few, those of several taps are multiplied together.
        taps: the taps of the window.
        tiles: the largest tiles.
        value_bytes: the bytes of a factor.
    """
    by_tap = inputs >= SMALLEST_SIDE
    values = inputs if by_tap else inputs * taps
    return by_tap, max(SMALLEST_SIDE, min(tiles.depth // value_bytes, 1 << (values.bit_length() - 1)))


def masked_pixels(pixels: int) -> int:
    """Choose how many pixels one program handles, in a kernel that goes over a whole mask of ``pixels``."""
    return _FEW if pixels < _SMALL else _MANY


def columns_of(channels: int, tiles: Tiles) -> int:
    """Choose how many of these channels a program computes at once."""
    return min(tiles.columns, power_of_two(channels, least=SMALLEST_SIDE))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PixelLaunch:
    """A kernel on listed pixels with all its arguments except the list and where results are written.

    Attributes:
        kernel: the function that ``triton.jit`` returned.
        arguments: the arguments before the output, the list and its count.
        constants: the constants that it is compiled for, except ``COMPACT`` and, where ``pixels`` is not 0, ``PIXELS``.
        pixels: the pixels of one program; 0: the output is one pixel of each camera, and the kernel itself finds out
            which of them are listed.
        blocks: the size of the grid's other axes: columns, and groups or cameras.
        channels: the channels of the output.
        most_programs: the most programs along the grid's first axis, which take blocks of pixels in turn; None: one
            for each block.
    """

    kernel: Any
    arguments: Sequence[Any]
    constants: Mapping[str, Any]
    pixels: int
    blocks: tuple[int, ...]
    channels: int
    most_programs: int | None = None

    @property
    def is_compiled(self) -> bool:
        """Whether the kernel runs compiled, on a GPU; elsewhere Triton interprets it."""
        return bool(self.arguments[0].is_cuda)

    def __call__(
        self, listed: torch.Tensor, count: torch.Tensor, out: torch.Tensor, *, most: int, compact: bool = False
    ) -> None:
        """Compute listed pixels of the output, without waiting for the device.

        Args:
            listed: int32 [most], on the device: the pixels.
            count: int32 [1], on the device: how many entries of the list are valid.
            out: [pixels, channels], or with ``compact`` [most, channels], of any float dtype.
            most: the length that the list can have at most.
            compact: whether results are written in the order of the list instead of at their pixels.
        """
        arguments = (*self.arguments, out, out.stride(0), listed, count)
        if self.pixels == 0:
            launch(self.kernel, self.blocks, *arguments, **self.constants, COMPACT=compact)
            return
        blocks = -(-most // self.pixels)
        grid = (blocks if self.most_programs is None else min(blocks, self.most_programs), *self.blocks)
        launch(self.kernel, grid, *arguments, **self.constants, COMPACT=compact, PIXELS=self.pixels)

    def function(self) -> Callable[[torch.Tensor], torch.Tensor]:
        """Return the launch as a :data:`PixelFunction`, for executors whose lists are on the host."""

        def compute(listed: torch.Tensor) -> torch.Tensor:
            out = torch.empty((len(listed), self.channels), device=listed.device)
            count = torch.tensor([len(listed)], dtype=torch.int32, device=listed.device)
            self(listed.to(torch.int32), count, out, most=len(listed), compact=True)
            return out

        return compute
