# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The cost model: how long each operator takes for how many active pixels, with each of its kernels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

SHARES = (0.01, 0.05, 0.2, 0.5, 1.0)
"""The shares of active pixels at which kernels are measured."""
POINTS = (0.0, *SHARES)
"""The shares at which kernels are measured, and 0, where there is nothing to compute."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """The microseconds that an operator takes, by the share of its pixels that are active.

    Attributes:
        rows: at :data:`SHARES`, with the kernel for listed pixels.
        alternative: at :data:`SHARES`, with the kernel for many pixels; None where there is none.
    """

    rows: tuple[float, ...]
    alternative: tuple[float, ...] | None = None

    def predict(self, share: float) -> float:
        """Predict the microseconds for a share of active pixels, with the kernel that would be chosen."""
        return float(self.predict_all(np.array([share]))[0])

    def predict_all(self, shares: NDArray[np.float64]) -> NDArray[np.float64]:
        """Predict the microseconds for each of many shares; see :meth:`predict`."""
        took = np.interp(shares, (0.0, *SHARES), (0.0, *self.rows))
        if self.alternative is None:
            return took
        return np.where(shares < self.switch_from, took, np.interp(shares, (0.0, *SHARES), (0.0, *self.alternative)))

    @property
    def switch_from(self) -> float:
        """The share of active pixels from which on the alternative stays faster; above 1 where it never is."""
        if self.alternative is None:
            return 2.0
        slower = [i for i, (a, b) in enumerate(zip(self.rows, self.alternative, strict=True)) if b >= a]
        if not slower:
            return SHARES[0]
        last = slower[-1]
        return 2.0 if last == len(SHARES) - 1 else self._crossing(last)

    def _crossing(self, last: int) -> float:
        """Interpolate where the alternative becomes faster, from the last measured share at which it is slower."""
        assert self.alternative is not None
        behind, ahead = (self.alternative[i] - self.rows[i] for i in (last, last + 1))
        return SHARES[last] + (SHARES[last + 1] - SHARES[last]) * behind / (behind - ahead)


@dataclass(frozen=True, slots=True, kw_only=True)
class CostModel:
    """How long the operators of a model take.

    Attributes:
        curves: the curves by operator's output; for operators without one no cost is known, and none is counted.
        propagation_ns: nanoseconds for each pixel of each active set that is filled.
    """

    curves: Mapping[str, Curve]
    propagation_ns: float = 0.0

    @property
    def without_alternatives(self) -> CostModel:
        """This cost model with only the kernel for listed pixels for each operator."""
        curves = {name: replace(curve, alternative=None) for name, curve in self.curves.items()}
        return replace(self, curves=curves)

    @property
    def dense_ms(self) -> float:
        """The predicted milliseconds of a frame in which everything is computed."""
        return sum(curve.predict(1.0) for curve in self.curves.values()) / 1e3
