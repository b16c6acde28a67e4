# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""PSNR, the similarity of two blocks (DeepCache section 4), over the raw bytes of all channels.

The paper compares raw pixels. All channels count, because a grey picture would hide changes of colour alone, which a
network sees; and three channels cost the search little, since the bytes of a row of a block lie side by side.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

PEAK = 255
"""Largest value of a byte."""


def psnr(first: NDArray[np.uint8], second: NDArray[np.uint8]) -> float:
    """PSNR in dB of two equally shaped uint8 arrays: 10 log10(255^2 / mean squared difference); inf where equal."""
    error = float(np.square(first.astype(np.int64) - second).mean())
    return 10 * math.log10(PEAK**2 / error) if error else math.inf


def allowed_error(threshold_db: float) -> float:
    """Largest mean squared difference whose PSNR is at least the threshold; 0.0 for inf."""
    return float(PEAK**2 * 10 ** (-threshold_db / 10))
