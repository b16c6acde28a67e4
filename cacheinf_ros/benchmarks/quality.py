"""How far cached outputs are from exact ones, so that it cannot lie (the measures of the benchmarks page).

Every error is a root mean square over all outputs, divided by the outputs' own spread: how far outputs of varied
images lie from their mean. Without that, a network that hardly notices its input would always look exact.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Outputs = list[NDArray[Any]]


class ErrorScale:
    """The spread of a model's outputs over a varied set of images, one number per output."""

    def __init__(self, varied: Sequence[Outputs]) -> None:
        self._spread = [_spread(values) for values in zip(*varied, strict=True)]

    def error(self, ours: Outputs, exact: Outputs) -> float:
        """The largest of the outputs' relative errors."""
        return max(
            float(np.sqrt(np.mean(np.square(a.astype(np.float64) - b)))) / spread
            for a, b, spread in zip(ours, exact, self._spread, strict=True)
        )


def agreement(ours: Outputs, exact: Outputs) -> float | None:
    """Share of equal decisions: of class vectors 0 or 1, of class maps the share of pixels; None for other outputs."""
    first, second = ours[0], exact[0]
    if first.ndim not in (2, 4) or first.shape[1] < 2:
        return None
    return float(np.mean(first.argmax(1) == second.argmax(1)))


def _spread(values: Sequence[NDArray[Any]]) -> float:
    stacked = np.stack(values).astype(np.float64)
    spread = float(np.sqrt(np.mean(np.square(stacked - stacked.mean(axis=0)))))
    return spread or float(np.finfo(np.float32).tiny)
