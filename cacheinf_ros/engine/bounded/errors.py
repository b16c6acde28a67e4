"""The errors of many frames together."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from cacheinf_ros.engine.quality import Outputs, OutputScale

_ROUNDING = 1e-5  # of the spread: a smaller change of the outputs is none


class ErrorSum:
    """Mean squares over frames and pixels, per output.

    Attributes:
        stale: the outputs of a cache that is never updated; may be replaced between frames.
    """

    def __init__(self, scale: OutputScale, stale: Outputs) -> None:
        self._spreads = np.array(scale.spreads)
        self.stale = stale
        self._frames = 0.0
        self._errors = np.zeros(len(self._spreads))
        self._changes = np.zeros(len(self._spreads))

    def add(self, ours: Outputs, exact: Outputs) -> None:
        """Take a frame into account."""
        self._frames += 1
        self._errors += [_mean_square(a, b) for a, b in zip(ours, exact, strict=True)]
        self._changes += [_mean_square(a, b) for a, b in zip(self.stale, exact, strict=True)]

    def fade(self, factor: float) -> None:
        """Let the frames so far count less."""
        self._frames *= factor
        self._errors *= factor
        self._changes *= factor

    @property
    def change(self) -> float:
        """RMS(stale - exact) over the outputs' spread; the largest of the outputs'."""
        return float(np.max(np.sqrt(self._changes / max(_ROUNDING, self._frames)) / self._spreads))

    @property
    def engine_error(self) -> float:
        """RMS(ours - exact) over the outputs' spread; the largest of the outputs'."""
        return float(np.max(np.sqrt(self._errors / max(_ROUNDING, self._frames)) / self._spreads))

    @property
    def missed_change(self) -> float:
        """RMS(ours - exact) / RMS(stale - exact), the largest of the outputs': 0 is exact, 1 is never updated."""
        nothing = max(_ROUNDING, self._frames) * np.square(_ROUNDING * self._spreads)
        return float(np.max(np.sqrt(self._errors / np.maximum(self._changes, nothing))))


def _mean_square(first: NDArray[Any], second: NDArray[Any]) -> float:
    difference = torch.from_numpy(first) - torch.from_numpy(second)  # feature maps are no contiguous arrays
    return float(difference.square_().mean(dtype=torch.float64))
