"""The errors of many frames together."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from cacheinf_ros.engine.quality import Outputs, OutputScale

_ROUNDING = 1e-5  # of the spread: a smaller change of the outputs is none


class ErrorSum:
    """Mean squares over frames and pixels, per output."""

    def __init__(self, scale: OutputScale, stale: Outputs) -> None:
        """``stale``: the outputs of a cache that is never updated."""
        self._spreads = np.array(scale.spreads)
        self._stale = list(stale)
        self._frames = 0
        self._errors = np.zeros(len(self._spreads))
        self._changes = np.zeros(len(self._spreads))

    def add(self, ours: Outputs, exact: Outputs) -> None:
        """Take a frame into account."""
        self._frames += 1
        self._errors += [_mean_square(a, b) for a, b in zip(ours, exact, strict=True)]
        self._changes += [_mean_square(a, b) for a, b in zip(self._stale, exact, strict=True)]

    @property
    def engine_error(self) -> float:
        """RMS(ours - exact) over the outputs' spread; the largest of the outputs'."""
        return float(np.max(np.sqrt(self._errors / max(1, self._frames)) / self._spreads))

    @property
    def missed_change(self) -> float:
        """RMS(ours - exact) / RMS(stale - exact), the largest of the outputs': 0 is exact, 1 is never updated."""
        nothing = max(1, self._frames) * np.square(_ROUNDING * self._spreads)
        return float(np.max(np.sqrt(self._errors / np.maximum(self._changes, nothing))))


def _mean_square(first: NDArray[Any], second: NDArray[Any]) -> float:
    difference = torch.from_numpy(first) - torch.from_numpy(second)  # feature maps are no contiguous arrays
    return float(difference.square_().mean(dtype=torch.float64))
