# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""What a machine takes for a frame, learned while it works: profiles are measured when the machine has nothing else to
do, and know nothing of what a frame takes beside its operators.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

_KEPT = 0.95  # of what was seen so far, with each frame
_FLOOR_MS = 5.0  # errors count in relation to what a frame takes and this
_BELIEF = 0.02  # weight of the profile, in frames
_INERTIA = 1e-4  # the same of what was found of an overhead, per square millisecond: it keeps what frames with little
# of a kind say from being blown up
_FARTHEST = 5.0  # times what was expected: more is an accident
_RELAXED = 0.005  # of what a machine is slower than expected, with each frame
_MOST_OFF = 50.0  # times slower or faster than measured


class LatencyModel:
    """A frame takes, in milliseconds: slowdown * what the profile says + the overheads that it has.

    Fitted to the frames seen, by least squares of the relative errors; recent frames count most.
    """

    def __init__(self, overheads_ms: Sequence[float], slowdown: float = 1.0) -> None:
        """Before anything is seen.

        Args:
            overheads_ms: of each kind.
            slowdown: see :attr:`slowdown`.
        """
        self._prior = np.diag([_BELIEF, *[_INERTIA] * len(overheads_ms)])
        self._found: NDArray[np.float64] = np.array([slowdown, *overheads_ms])
        self._expected = self._found.copy()
        self._squares, self._products = np.zeros_like(self._prior), np.zeros_like(self._found)

    @property
    def slowdown(self) -> float:
        """How many times as long as in the profile operators take."""
        return float(self._found[0])

    def overhead_ms(self, amounts: Sequence[float]) -> float:
        """What a frame takes beside its operators that has so much of each kind."""
        return float(self._found[1:] @ amounts)

    def __str__(self) -> str:
        """As in "1.05 x profile + 2.1 ms"."""
        return " + ".join([f"{self.slowdown:.2f} x profile", *(f"{found:.1f} ms" for found in self._found[1:])])

    def relax(self, frames: int = 1) -> None:
        """In so many frames nothing is seen of a machine that was found slow: it becomes what it was expected to be."""
        kept = (1 - _RELAXED) ** frames
        self._found += (1 - kept) * np.minimum(0.0, self._expected - self._found)
        self._squares *= kept
        self._products *= kept

    def observe(self, profile_ms: float, amounts: Sequence[float], took_ms: float) -> None:
        """A frame for which the profile says so much, with so much of each kind of overhead, took so long."""
        row = np.array([profile_ms, *amounts])
        expected_ms = float(row @ self._found) + _FLOOR_MS
        weight, took_ms = 1 / expected_ms**2, min(took_ms, _FARTHEST * expected_ms)
        self._squares = _KEPT * self._squares + weight * np.outer(row, row)
        self._products = _KEPT * self._products + weight * took_ms * row
        # what was found stays as it is where nothing is seen of it any more
        products = self._products + self._prior @ self._found
        factor = np.linalg.cholesky(self._prior + self._squares)
        from scipy.optimize import nnls  # here: it takes a while, and only who has a server needs it

        self._found, _ = nnls(factor.T, np.linalg.solve(factor, products))
        self._found[0] = min(max(float(self._found[0]), 1 / _MOST_OFF), _MOST_OFF)
