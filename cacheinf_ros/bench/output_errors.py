# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The errors of outputs against exact ones, scaled so that they cannot mislead (see the benchmarks page).

Every error is a root mean square over an output, divided by the output's standard deviation: how far outputs of varied
images lie from their mean. Without that, a network that hardly notices its input would always look exact.

The engine keeps its promise by measures of its own; these share no code with them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

Outputs = Sequence[NDArray[Any]]
Mask = NDArray[np.bool_]

_NOTICEABLE = 1e-4
"""The least change of outputs, over their standard deviation, of which a missed share can be stated."""


class ErrorScale:
    """The standard deviation of a model's outputs over a varied set of images, one number per output."""

    def __init__(self, varied: Iterable[Outputs]) -> None:
        images = iter(varied)
        first = [value.astype(np.float32) for value in next(images)]
        count, sums, squares = 1, [np.zeros_like(value) for value in first], [0.0] * len(first)
        for outputs in images:  # one at a time: all together may not fit into memory
            count += 1
            for i, value in enumerate(outputs):
                deviation = np.subtract(value, first[i], dtype=np.float32)
                sums[i] += deviation
                squares[i] += mean_square(deviation)
        means = [np.divide(total, count, dtype=np.float32) for total in sums]
        variances = [total / count - mean_square(mean) for total, mean in zip(squares, means, strict=True)]
        self._spread = [math.sqrt(max(v, 0.0)) or float(np.finfo(np.float32).tiny) for v in variances]

    @property
    def deviations(self) -> list[float]:
        """The standard deviation of each output."""
        return list(self._spread)

    def error(self, ours: Outputs, exact: Outputs) -> float:
        """Return the largest of the outputs' relative errors."""
        return max(self.errors(ours, exact))

    def errors(self, ours: Outputs, exact: Outputs) -> list[float]:
        """Return the relative error of each output."""
        return [
            math.sqrt(mean_square(np.subtract(a, b, dtype=np.float32))) / spread
            for a, b, spread in zip(ours, exact, self._spread, strict=True)
        ]


class MissedChange:
    """The share of change that was missed: RMS(ours - exact) / RMS(stale - exact) over frames.

    It is 0 for exact outputs, 1 for outputs that are never updated. All outputs have equal weight: each error is
    divided by the output's own standard deviation.
    """

    def __init__(self, scale: ErrorScale) -> None:
        self._scale = scale
        self._missed = self._changed = 0.0
        self._count = 0

    def add(self, ours: Outputs, exact: Outputs, stale: Outputs) -> None:
        """Add a frame; ``stale``: the outputs from when everything was last computed."""
        self._missed += sum(error**2 for error in self._scale.errors(ours, exact))
        self._changed += sum(error**2 for error in self._scale.errors(stale, exact))
        self._count += len(ours)

    @property
    def value(self) -> float | None:
        """What was missed over what changed; None where the outputs hardly changed."""
        if not self._count or math.sqrt(self._changed / self._count) < _NOTICEABLE:
            return None
        return math.sqrt(self._missed / self._changed)


class Agreement:
    """The share of equal decisions over frames: one decision per class vector, one per pixel of a class map."""

    def __init__(self) -> None:
        self._equal = self._total = 0

    def add(self, ours: NDArray[np.int64] | None, exact: NDArray[np.int64] | None, where: Mask | None = None) -> None:
        """Add a frame.

        Args:
            ours, exact: the decisions, [1] or [height, width]; None: there are none.
            where: bool [any height, any width], for maps: the pixels that count; None: all.
        """
        if ours is None or exact is None:
            return
        equal = ours == exact
        if where is not None and equal.ndim == 2:
            equal = equal[_scaled(where, equal.shape)]
        self._equal += int(equal.sum())
        self._total += equal.size

    @property
    def value(self) -> float | None:
        """Equal decisions over all decisions; None where nothing was decided."""
        return self._equal / self._total if self._total else None


def mean_square(values: NDArray[np.float32]) -> float:
    """Average the squares of all values."""
    flat = values.ravel()
    return float(np.dot(flat, flat)) / flat.size


def _scaled(mask: Mask, size: tuple[int, ...]) -> Mask:
    """Scale a mask to another size; a pixel is set where any pixel that it covers is set."""
    shrinks = size[0] <= mask.shape[0] and size[1] <= mask.shape[1]
    interpolation = cv2.INTER_AREA if shrinks else cv2.INTER_NEAREST
    return np.asarray(cv2.resize(mask.astype(np.float32), (size[1], size[0]), interpolation=interpolation)) > 0
