# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Estimates how exactly a loss is known from a number of frames."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def ratio_error(parts: NDArray[np.float64], totals: NDArray[np.float64]) -> NDArray[np.float64]:
    """Estimate the standard error of a ratio of two sums over frames, as if frames were independent.

    Args:
        parts: [..., frames], the terms of the numerator: what was missed in each frame.
        totals: [frames], the terms of the denominator: what there was to decide.

    Returns:
        the standard errors, [...]; 0 where there was nothing to decide.
    """
    everything = totals.sum()
    if not everything:
        return np.zeros(parts.shape[:-1])
    ratio = parts.sum(-1, keepdims=True) / everything
    return np.asarray(np.sqrt(np.sum(np.square(parts - ratio * totals), axis=-1)) / everything)
