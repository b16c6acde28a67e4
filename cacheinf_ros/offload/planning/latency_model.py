# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""A model of what a machine takes for a frame, learned while the machine works.

Profiles are measured while the machine has nothing else to do, and do not include what a frame takes besides its
operators.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

_KEPT = 0.95  # the weight that earlier frames keep with each new frame
_FLOOR_MS = 5.0  # errors count relative to the expected time plus this
_BELIEF = 0.02  # weight of the known slowdown, in frames
# the weight of a known overhead, per square millisecond: it keeps frames with little of an overhead from distorting it
_INERTIA = 1e-4
_FARTHEST = 5.0  # times the expectation: a frame that takes longer is an outlier, and counts as this
_RELAXED = 0.005  # the share of its excess over the expectation that a machine is forgiven with each frame
_MOST_OFF = 50.0  # times slower or faster than measured


class LatencyModel:
    """Predicts what a frame takes in milliseconds: slowdown * time by the profile + overheads.

    The model is fitted to the frames seen, by least squares of the relative errors; recent frames count most.
    """

    def __init__(self, overheads_ms: Sequence[float], slowdown: float = 1.0) -> None:
        """Start with what is expected before any frame is seen.

        Args:
            overheads_ms: the expected overhead of each kind.
            slowdown: see :attr:`slowdown`.
        """
        self._prior = np.diag([_BELIEF, *[_INERTIA] * len(overheads_ms)])
        self._found: NDArray[np.float64] = np.array([slowdown, *overheads_ms])
        self._expected = self._found.copy()
        self._squares, self._products = np.zeros_like(self._prior), np.zeros_like(self._found)

    @property
    def slowdown(self) -> float:
        """How many times longer operators take than in the profile."""
        return float(self._found[0])

    def overhead_ms(self, amounts: Sequence[float]) -> float:
        """Return what a frame takes besides its operators, given how much of each kind of overhead it has."""
        return float(self._found[1:] @ amounts)

    def __str__(self) -> str:
        """Describe the model, as in "1.05 x profile + 2.1 ms"."""
        return " + ".join([f"{self.slowdown:.2f} x profile", *(f"{found:.1f} ms" for found in self._found[1:])])

    def relax(self, frames: int = 1) -> None:
        """Forget, over time, that a machine was slow.

        Called for a number of frames in which nothing was seen of the machine: its parameters move from slower than
        expected towards what was expected.
        """
        kept = self._relax(slice(None), frames)
        self._squares *= kept
        self._products *= kept

    def relax_overheads(self, which: Sequence[int], frames: int = 1) -> None:
        """Forget, over time, that some overheads were large, as frames that have them were not seen.

        Args:
            which: numbers of the overheads.
            frames: the number of frames without them.
        """
        self._relax([1 + number for number in which], frames)

    def _relax(self, parameters: slice | list[int], frames: int) -> float:
        """Move parameters towards what was expected; return the share of their excess that is kept."""
        kept = (1 - _RELAXED) ** frames
        excess = np.maximum(0.0, self._found[parameters] - self._expected[parameters])
        self._found[parameters] -= (1 - kept) * excess
        return kept

    def observe(self, profile_ms: float, amounts: Sequence[float], took_ms: float) -> None:
        """Fit the model to a frame.

        Args:
            profile_ms: what its operators take by the profile.
            amounts: how much it has of each kind of overhead.
            took_ms: what it took.
        """
        row = np.array([profile_ms, *amounts])
        expected_ms = float(row @ self._found) + _FLOOR_MS
        weight, took_ms = 1 / expected_ms**2, min(took_ms, _FARTHEST * expected_ms)
        self._squares = _KEPT * self._squares + weight * np.outer(row, row)
        self._products = _KEPT * self._products + weight * took_ms * row
        # parameters about which the frames say nothing stay as they are
        products = self._products + self._prior @ self._found
        factor = np.linalg.cholesky(self._prior + self._squares)
        from scipy.optimize import nnls  # imported late: it takes a while, and is needed only with a server

        self._found, _ = nnls(factor.T, np.linalg.solve(factor, products))
        self._found[0] = min(max(float(self._found[0]), 1 / _MOST_OFF), _MOST_OFF)
