# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The errors of many frames together."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from cacheinf_ros.engine.quality import Outputs, OutputScale

Squares = NDArray[np.float64]
_PART = 1 << 18  # values
_ROUNDING = 1e-5  # of the deviation: a smaller change of the outputs is none


class ErrorSum:
    """Mean squares over frames and pixels, per output."""

    def __init__(self, scale: OutputScale) -> None:
        self._deviations = np.array(scale.deviations)
        self._frames = 0.0
        self._errors = np.zeros(len(self._deviations))
        self._changes = np.zeros(len(self._deviations))

    def add_squares(self, errors: Squares, changes: Squares) -> None:
        """Take a frame into account by :func:`mean_squares` of its outputs and of stale ones, against exact ones."""
        self._frames += 1
        self._errors += errors
        self._changes += changes

    def fade(self, factor: float) -> None:
        """Let the frames so far count less."""
        self._frames *= factor
        self._errors *= factor
        self._changes *= factor

    @property
    def change(self) -> float:
        """RMS(stale - exact) over the outputs' deviation; the largest of the outputs'."""
        return float(np.max(np.sqrt(self._changes / max(_ROUNDING, self._frames)) / self._deviations))

    @property
    def engine_error(self) -> float:
        """RMS(ours - exact) over the outputs' deviation; the largest of the outputs'."""
        return float(np.max(np.sqrt(self._errors / max(_ROUNDING, self._frames)) / self._deviations))

    @property
    def missed_change(self) -> float:
        """RMS(ours - exact) / RMS(stale - exact), the largest of the outputs': 0 is exact, 1 is never updated."""
        nothing = max(_ROUNDING, self._frames) * np.square(_ROUNDING * self._deviations)
        return float(np.max(np.sqrt(self._errors / np.maximum(self._changes, nothing))))


def mean_squares(first: Outputs, second: Outputs) -> Squares:
    """float64 [outputs]: mean squared differences."""
    return np.array([_mean_square(a, b) for a, b in zip(first, second, strict=True)])


def _mean_square(first: NDArray[Any], second: NDArray[Any]) -> float:
    """Part by part, each small enough for the processor's cache: a map of all classes of all pixels is large."""
    a, b = (torch.from_numpy(values) for values in (first, second))
    if a.ndim == 4:  # feature maps are no contiguous arrays
        a, b = a.permute(0, 2, 3, 1), b.permute(0, 2, 3, 1)
    a, b = a.reshape(-1), b.reshape(-1)
    total = 0.0
    for part, other in zip(a.split(_PART), b.split(_PART), strict=True):
        difference = part.float() - other.float()
        total += float(torch.dot(difference, difference))
    return total / a.numel()
