# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Budgets, and the part of them that one request may take: lines 20 to 31 of MCDNN's algorithm 1 (section 5.3)."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from cacheinf_ros.catalog.variant import Cost
from cacheinf_ros.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """What a robot may spend within a time; infinity stands for no limit.

    Attributes:
        energy_j: energy from the battery.
        money: payment to the cloud, dollars.
        horizon_s: how long the budget is to last. What is left afterwards may be used freely.

    Raises:
        ConfigError: a budget is negative or not a number, or the horizon is not positive or not finite.
    """

    energy_j: float = math.inf
    money: float = math.inf
    horizon_s: float

    def __post_init__(self) -> None:
        if not (self.energy_j >= 0 and self.money >= 0 and 0 < self.horizon_s < math.inf):
            raise ConfigError(
                f"budget of {self.energy_j} J and {self.money} dollars for {self.horizon_s} s: expected budgets of at "
                "least 0 (inf: without a limit) and a horizon above 0"
            )


@dataclass(slots=True)
class Account:
    """What is left of a budget; negative where something cost more than predicted."""

    energy_j: float
    money: float

    def spend(self, energy_j: float, money: float) -> None:
        """Subtract joules and dollars."""
        self.energy_j -= energy_j
        self.money -= money

    def covers(self, energy_j: float, money: float) -> bool:
        """Tell whether that much is left; an amount of nothing is always covered."""
        return (energy_j <= 0 or energy_j <= self.energy_j) and (money <= 0 or money <= self.money)

    def share(self, cost: Cost) -> float:
        """Return the larger share, of the energy or of the money that is left, that a request takes."""
        return max(_ratio(cost.energy_j, self.energy_j), _ratio(cost.money, self.money))


def per_request(
    remaining: float,
    *,
    time_s: float,
    frequency_hz: float,
    squares_hz2: float,
    load: float = 0.0,
    since_load_s: float = math.inf,
) -> float:
    """Compute what one request may take: line 26, RESPERREQ, (r − Δr_n T / Δt_n) f_n / (T Σ f_i²).

    More frequent requests are allowed more. Over the time T, requests at f_i that take what they are allowed use up r:
    Σ f_i T r_i = r. The subtraction damps: it is what loading would take until the end if the model were loaded again
    at intervals like the last one.

    Args:
        remaining: r, what is left of a resource, in its unit.
        time_s: T, the time until the budget ends, above 0.
        frequency_hz: f_n, how often the model is asked.
        squares_hz2: Σ f_i² over the models that draw on the resource, this one included; above 0.
        load: Δr_n, what loading the model takes of the resource; 0 where nothing is to be loaded.
        since_load_s: Δt_n, the time since the model was last loaded; infinity where it is not in the cache.

    Returns:
        What the request may take, in the unit of the resource; negative where damping forbids loading altogether.
    """
    if load > 0 and since_load_s < math.inf:
        remaining = remaining - load * time_s / since_load_s if since_load_s > 0 else -math.inf
    return remaining * frequency_hz / (time_s * squares_hz2)


def split_between(energy_j: float, money: float, device_share: float) -> tuple[float, float]:
    """Compute what a split request may take, (e_S, c_S) = (e_D t_n, c_C (1 − t_n)): lines 28 and 29.

    Args:
        energy_j: e_D, what a request on the device may take.
        money: c_C, what a request in the cloud may take.
        device_share: t_n, the fraction of the execution time that the first part, on the device, takes.
    """
    return (
        energy_j * device_share if energy_j < math.inf else energy_j,
        money * (1 - device_share) if money < math.inf else money,
    )


@dataclass(slots=True)
class Frequency:
    """The frequency of a model's requests, counted anew whenever a variant of it is loaded (line 23).

    The estimate from before counts as much as :data:`PRIOR` requests, so that the first one after loading does not
    decide alone.

    Attributes:
        believed_hz: the estimate when the count began, above 0.
        since_s: when the count began.
        count: number of requests since then.
    """

    believed_hz: float
    since_s: float
    count: int = field(default=0)

    def hz(self, now_s: float) -> float:
        """Return the present estimate, above 0."""
        return (PRIOR + self.count) / (PRIOR / self.believed_hz + max(0.0, now_s - self.since_s))

    def begin_anew(self, now_s: float) -> None:
        """Restart the count, as the model has been paged in."""
        self.believed_hz, self.since_s, self.count = self.hz(now_s), now_s, 0


PRIOR = 5.0
"""The number of requests that the estimate from before a count counts for."""


def _ratio(part: float, whole: float) -> float:
    if part <= 0:
        return 0.0
    return part / whole if whole > 0 else math.inf
