# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""How far outputs are from exact ones, so that it cannot lie (the measures of the benchmarks page).

Every error is a root mean square over an output, divided by the output's own spread: how far outputs of varied
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
"""Change of outputs, over their standard deviation, below which nothing can be said about how much of it was missed."""


class ErrorScale:
    """The spread of a model's outputs over a varied set of images, one number per output."""

    def __init__(self, varied: Iterable[Outputs]) -> None:
        images = iter(varied)
        first = [value.astype(np.float32) for value in next(images)]
        count, sums, squares = 1, [np.zeros_like(value) for value in first], [0.0] * len(first)
        for outputs in images:  # as they come: together they may not fit into memory
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
        """The largest of the outputs' relative errors."""
        return max(self.errors(ours, exact))

    def errors(self, ours: Outputs, exact: Outputs) -> list[float]:
        """The relative error of each output."""
        return [
            math.sqrt(mean_square(np.subtract(a, b, dtype=np.float32))) / spread
            for a, b, spread in zip(ours, exact, self._spread, strict=True)
        ]


class MissedChange:
    """RMS(ours - exact) / RMS(stale - exact) over frames: 0 for exact, 1 for outputs that are never updated.

    Outputs count alike: each is measured by its own spread.
    """

    def __init__(self, scale: ErrorScale) -> None:
        self._scale = scale
        self._missed = self._changed = 0.0
        self._count = 0

    def add(self, ours: Outputs, exact: Outputs, stale: Outputs) -> None:
        """Take a frame into account; ``stale``: the outputs when everything was last computed."""
        self._missed += sum(error**2 for error in self._scale.errors(ours, exact))
        self._changed += sum(error**2 for error in self._scale.errors(stale, exact))
        self._count += len(ours)

    @property
    def value(self) -> float | None:
        """Divide what was missed by what changed; None where the outputs hardly changed."""
        if not self._count or math.sqrt(self._changed / self._count) < _NOTICEABLE:
            return None
        return math.sqrt(self._missed / self._changed)


class Agreement:
    """Share of equal decisions over frames: of class vectors one each, of class maps one per pixel."""

    def __init__(self) -> None:
        self._equal = self._total = 0

    def add(self, ours: NDArray[np.int64] | None, exact: NDArray[np.int64] | None, where: Mask | None = None) -> None:
        """Take a frame into account.

        Args:
            ours, exact: the decisions, [1] or [height, width]; None: there are none.
            where: bool [any height, any width], of maps: the pixels that count; None: all.
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
        """Divide equal decisions by all; None where nothing was decided."""
        return self._equal / self._total if self._total else None


def mean_square(values: NDArray[np.float32]) -> float:
    """Average the squares of all values."""
    flat = values.ravel()
    return float(np.dot(flat, flat)) / flat.size


def _scaled(mask: Mask, size: tuple[int, ...]) -> Mask:
    """The mask at another size; a pixel is set where any that it stands for is."""
    shrinks = size[0] <= mask.shape[0] and size[1] <= mask.shape[1]
    interpolation = cv2.INTER_AREA if shrinks else cv2.INTER_NEAREST
    return np.asarray(cv2.resize(mask.astype(np.float32), (size[1], size[0]), interpolation=interpolation)) > 0
