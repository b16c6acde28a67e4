# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""How a kernel on listed pixels is launched, and in which tiles it works."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

SMALLEST_SIDE = 16
"""Of a product on Tensor Cores."""
_FEW, _MANY = 256, 1024  # pixels of a program that looks at whole masks
_SMALL = 1 << 17  # pixels of masks for which few are enough: in larger ones too many wait to add to one count
_INTERPRETED_PIXELS = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Tiles:
    """The largest tile of one program, in powers of two, and how a product is computed; chosen on an H200.

    Attributes:
        pixels: how many of the listed pixels.
        columns: how many of the output channels.
        depth: bytes of a product's depth at a time.
        stages: pieces of that depth that are on their way at a time, one of which is multiplied.
        warps: of a program that computes a product.
        most_per_multiprocessor: programs of a product that are started for each multiprocessor of the GPU.
    """

    pixels: int = 64
    columns: int = 64
    depth: int = 128
    stages: int = 4
    warps: int = 4
    most_per_multiprocessor: int = 4

    @classmethod
    def of_floats(cls, floats: torch.dtype) -> Tiles:
        """Choose tiles for a GPU: float32 is multiplied in three parts, and with 64 pixels registers run short."""
        return cls(pixels=32, stages=3) if floats is torch.float32 else cls()

    @classmethod
    def interpreted(cls) -> Tiles:
        """Choose tiles for Triton's interpreter, which takes its time per program and not per value."""
        return cls(pixels=_INTERPRETED_PIXELS, columns=256, depth=256)


def power_of_two(count: int, *, least: int = 1) -> int:
    """The smallest power of two that is neither below ``count`` nor below ``least``."""
    return max(least, 1 << (max(1, count) - 1).bit_length())


def product_depth(inputs: int, taps: int, tiles: Tiles, value_bytes: int) -> tuple[bool, int]:
    """(whether each tap's channels are multiplied by themselves, how many values at a time) of a convolution.

    Args:
        inputs: input channels of a group: where they are few, those of several taps are multiplied together.
        value_bytes: of a factor.
    """
    by_tap = inputs >= SMALLEST_SIDE
    values = inputs if by_tap else inputs * taps
    return by_tap, max(SMALLEST_SIDE, min(tiles.depth // value_bytes, 1 << (values.bit_length() - 1)))


def masked_pixels(pixels: int) -> int:
    """Choose how many pixels one program looks at, of a kernel that goes over a whole mask of ``pixels``."""
    return _FEW if pixels < _SMALL else _MANY


def columns_of(channels: int, tiles: Tiles) -> int:
    """How many of these channels a program computes at once."""
    return min(tiles.columns, power_of_two(channels, least=SMALLEST_SIDE))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PixelLaunch:
    """A kernel on listed pixels with everything but the list and the place of its results.

    Attributes:
        kernel: what ``triton.jit`` made.
        arguments: before the output, the list and its count.
        constants: what it is compiled for, without ``COMPACT``.
        pixels: of a program; 0: its output is one pixel of each camera, and the kernel finds out which are listed.
        blocks: of the other axes of the grid: columns, and groups or cameras.
        channels: of the output.
        most_programs: along the grid's first axis, where they take blocks of pixels in turn; None: one for each block.
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
        """Whether it runs on a GPU; elsewhere Triton interprets it."""
        return bool(self.arguments[0].is_cuda)

    def __call__(
        self, listed: torch.Tensor, count: torch.Tensor, out: torch.Tensor, *, most: int, compact: bool = False
    ) -> None:
        """Compute pixels of the output; nothing waits for it.

        Args:
            listed: int32 [most], on the device: the pixels.
            count: int32 [1], on the device: how many of them count.
            out: [pixels, channels], or with ``compact`` [most, channels], of any type of floats.
            compact: results are written in the order of the list, not at their pixels.
        """
        if self.pixels == 0:
            self.kernel[self.blocks](
                *self.arguments, out, out.stride(0), listed, count, **self.constants, COMPACT=compact
            )
            return
        blocks = -(-most // self.pixels)
        grid = (blocks if self.most_programs is None else min(blocks, self.most_programs), *self.blocks)
        self.kernel[grid](
            *self.arguments, out, out.stride(0), listed, count, **self.constants, COMPACT=compact, PIXELS=self.pixels
        )

    def function(self) -> Callable[[torch.Tensor], torch.Tensor]:
        """The launch as a :data:`PixelFunction`, for executors whose lists are on the host."""

        def compute(listed: torch.Tensor) -> torch.Tensor:
            out = torch.empty((len(listed), self.channels), device=listed.device)
            count = torch.tensor([len(listed)], dtype=torch.int32, device=listed.device)
            self(listed.to(torch.int32), count, out, most=len(listed), compact=True)
            return out

        return compute
