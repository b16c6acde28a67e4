"""Driving a compiled program without an engine."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from cacheinf_ros.engine.program import Program


def change(program: Program, image: torch.Tensor, mask: NDArray[np.uint8]) -> None:
    """Write the pixels of an image, float32 [height, width, 3], that a mask holds, and say that they changed."""
    rows = torch.from_numpy(np.flatnonzero(mask))
    program.input.rows[rows] = image.reshape(-1, 3)[rows]
    np.copyto(program.changed_input.mask, mask)
    program.changed_input.use_mask()
