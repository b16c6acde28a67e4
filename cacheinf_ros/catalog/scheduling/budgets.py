# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""What one request may take of a budget: lines 20 to 31 of MCDNN's algorithm 1 (section 5.3)."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from cacheinf_ros.catalog.variant import Cost
from cacheinf_ros.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """What a robot may use up within a time. Without a limit: infinity.

    Attributes:
        energy_j: from the battery.
        money: paid to the cloud, dollars.
        horizon_s: how long that is to last. What is left then may be used freely.

    Raises:
        ConfigError: a budget is negative or no number, or a horizon not positive or not finite.
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
    """What is left of a budget; below 0 where something took more than it was predicted to."""

    energy_j: float
    money: float

    def spend(self, energy_j: float, money: float) -> None:
        """Take joules and dollars."""
        self.energy_j -= energy_j
        self.money -= money

    def covers(self, energy_j: float, money: float) -> bool:
        """Whether that much is left. What costs nothing is always covered."""
        return (energy_j <= 0 or energy_j <= self.energy_j) and (money <= 0 or money <= self.money)

    def share(self, cost: Cost) -> float:
        """Weigh a request: the share that it takes of what is left, of whichever resource it takes more of."""
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
    """Line 26, RESPERREQ: (r − Δr_n T / Δt_n) f_n / (T Σ f_i²).

    More frequent requests are allowed more. Over the time T, requests at f_i that take no more than they are allowed
    take r together: Σ f_i T r_i = r. The subtraction damps: were the model loaded again as soon as it was this time,
    until the end, so much would go into loading.

    Args:
        remaining: r, of a resource in its unit.
        time_s: T, until the budget ends, above 0.
        frequency_hz: f_n, how often the model is asked.
        squares_hz2: Σ f_i² over the models that draw on the resource, this one included; above 0.
        load: Δr_n, what loading the model takes of the resource; 0 where nothing is to be loaded.
        since_load_s: Δt_n, since the model was last loaded; infinity where it is not in the cache.

    Returns:
        In the unit of the resource; negative where loading is damped altogether.
    """
    if load > 0 and since_load_s < math.inf:
        remaining = remaining - load * time_s / since_load_s if since_load_s > 0 else -math.inf
    return remaining * frequency_hz / (time_s * squares_hz2)


def split_between(energy_j: float, money: float, device_share: float) -> tuple[float, float]:
    """Lines 28 and 29: what a split request may take, (e_S, c_S) = (e_D t_n, c_C (1 − t_n)).

    Args:
        energy_j: e_D, what a request on the device may take.
        money: c_C, what a request in the cloud may take.
        device_share: t_n, the fraction of the time that the initial part takes, which the device executes.
    """
    return (
        energy_j * device_share if energy_j < math.inf else energy_j,
        money * (1 - device_share) if money < math.inf else money,
    )


@dataclass(slots=True)
class Frequency:
    """How often a model is asked, "measured since it was last paged into the cache" (line 23).

    What was believed before counts as much as :data:`PRIOR` requests, lest the first one after loading decide alone.

    Attributes:
        believed_hz: when the count began, above 0.
        since_s: when that was.
        count: requests since.
    """

    believed_hz: float
    since_s: float
    count: int = field(default=0)

    def hz(self, now_s: float) -> float:
        """The present estimate, above 0."""
        return (PRIOR + self.count) / (PRIOR / self.believed_hz + max(0.0, now_s - self.since_s))

    def begin_anew(self, now_s: float) -> None:
        """The model has been paged in."""
        self.believed_hz, self.since_s, self.count = self.hz(now_s), now_s, 0


PRIOR = 5.0
"""Requests."""


def _ratio(part: float, whole: float) -> float:
    if part <= 0:
        return 0.0
    return part / whole if whole > 0 else math.inf
