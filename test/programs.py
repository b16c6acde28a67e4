# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Driving a compiled program without an engine."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from numpy.typing import NDArray

from cacheinf_ros.engine.execution.border import Border
from cacheinf_ros.engine.program import Program


def changing_frames(
    size: tuple[int, int], rng: np.random.Generator, frames: int
) -> Iterator[tuple[int, torch.Tensor, NDArray[np.uint8], Border]]:
    """Number, image, float32 [height, width, 3], what of it changes, and beside which sides padding does.

    The first changes everywhere, others more and less; the last one with its padding.
    """
    image = torch.from_numpy(rng.random((*size, 3), np.float32))
    for frame in range(frames):
        share = 1.0 if frame == 0 else rng.choice([0.0, 0.002, 0.05, 0.5])
        mask = (rng.random(size) < share).astype(np.uint8)
        yield frame, image, mask, Border.ALL if frame == frames - 1 else Border.NONE
        image = image + torch.from_numpy(rng.normal(0, 0.1, (*size, 3)).astype(np.float32))


def change(program: Program, image: torch.Tensor, mask: NDArray[np.uint8]) -> None:
    """Write the pixels of an image, float32 [height, width, 3], that a mask holds, and say that they changed."""
    listed = torch.from_numpy(np.flatnonzero(mask))
    program.input.pixels[listed] = image.reshape(-1, 3)[listed]
    np.copyto(program.changed_input.mask, mask)
    program.changed_input.use_mask()
