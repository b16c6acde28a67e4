# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Sums up the errors of many frames."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from cacheinf_ros.engine.quality import Outputs, OutputScale

Squares = NDArray[np.float64]
_PART = 1 << 18  # values in a part
_ROUNDING = 1e-5  # share of the deviation: a smaller change of the outputs counts as none


class ErrorSum:
    """Averages squared errors and changes over frames and pixels, per output."""

    def __init__(self, scale: OutputScale) -> None:
        self._deviations = np.array(scale.deviations)
        self._frames = 0.0
        self._errors = np.zeros(len(self._deviations))
        self._changes = np.zeros(len(self._deviations))

    def add_squares(self, errors: Squares, changes: Squares) -> None:
        """Add a frame, given :func:`mean_squares` of its outputs and of stale ones, both against exact ones."""
        self._frames += 1
        self._errors += errors
        self._changes += changes

    def fade(self, factor: float) -> None:
        """Let the frames so far count less, by a factor."""
        self._frames *= factor
        self._errors *= factor
        self._changes *= factor

    @property
    def change(self) -> float:
        """The largest RMS(stale - exact) of an output, divided by the output's deviation."""
        return float(np.max(np.sqrt(self._changes / max(_ROUNDING, self._frames)) / self._deviations))

    @property
    def engine_error(self) -> float:
        """The largest RMS(ours - exact) of an output, divided by the output's deviation."""
        return float(np.max(np.sqrt(self._errors / max(_ROUNDING, self._frames)) / self._deviations))

    @property
    def missed_change(self) -> float:
        """The largest RMS(ours - exact) / RMS(stale - exact) of an output: 0 is exact, 1 is never updated."""
        nothing = max(_ROUNDING, self._frames) * np.square(_ROUNDING * self._deviations)
        return float(np.max(np.sqrt(self._errors / np.maximum(self._changes, nothing))))


def mean_squares(first: Outputs, second: Outputs) -> Squares:
    """Compute the mean squared difference of each output, float64 [outputs]."""
    return np.array([_mean_square(a, b) for a, b in zip(first, second, strict=True)])


def _mean_square(first: NDArray[Any], second: NDArray[Any]) -> float:
    """Average in parts that fit into the processor's cache: a map of all classes of all pixels is large."""
    a, b = (torch.from_numpy(values) for values in (first, second))
    if a.ndim == 4:  # feature maps are no contiguous arrays
        a, b = a.permute(0, 2, 3, 1), b.permute(0, 2, 3, 1)
    a, b = a.reshape(-1), b.reshape(-1)
    total = 0.0
    for part, other in zip(a.split(_PART), b.split(_PART), strict=True):
        difference = part.float() - other.float()
        total += float(torch.dot(difference, difference))
    return total / a.numel()
