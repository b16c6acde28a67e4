"""The cost model: how long each operator takes for how many active pixels, with each of its kernels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

SHARES = (0.01, 0.05, 0.2, 0.5, 1.0)
"""Shares of the pixels at which kernels are measured."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """Microseconds of an operator by the share of its pixels that are active.

    Attributes:
        rows: at :data:`SHARES`, with the kernel for listed pixels.
        alternative: the same with the kernel for many pixels; None where there is none.
    """

    rows: tuple[float, ...]
    alternative: tuple[float, ...] | None = None

    def predict(self, share: float) -> float:
        """Microseconds with the kernel that would be chosen."""
        kernel = self.rows if share < self.switch_from else self.alternative
        assert kernel is not None
        return float(np.interp(share, (0.0, *SHARES), (0.0, *kernel)))

    @property
    def switch_from(self) -> float:
        """The share from which on the alternative is faster, for good; above 1 where it never is."""
        if self.alternative is None:
            return 2.0
        slower = [i for i, (a, b) in enumerate(zip(self.rows, self.alternative, strict=True)) if b >= a]
        if not slower:
            return SHARES[0]
        last = slower[-1]
        return 2.0 if last == len(SHARES) - 1 else self._crossing(last)

    def _crossing(self, last: int) -> float:
        """Between the last measured share at which the alternative is slower and the next, linearly."""
        assert self.alternative is not None
        behind, ahead = (self.alternative[i] - self.rows[i] for i in (last, last + 1))
        return SHARES[last] + (SHARES[last + 1] - SHARES[last]) * behind / (behind - ahead)


@dataclass(frozen=True, slots=True, kw_only=True)
class CostModel:
    """Curves by operator's output; operators without one cost nothing that is known."""

    curves: Mapping[str, Curve]

    def predict_ms(self, shares: Mapping[str, float]) -> float:
        """Milliseconds of a frame with these shares of active pixels, by operator's output."""
        return sum(self.curves[name].predict(share) for name, share in shares.items() if name in self.curves) / 1e3

    @property
    def dense_ms(self) -> float:
        """Milliseconds of a frame in which everything is computed."""
        return sum(curve.predict(1.0) for curve in self.curves.values()) / 1e3
