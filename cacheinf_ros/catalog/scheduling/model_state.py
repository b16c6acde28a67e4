# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""What the scheduler knows about a model, and the question that it asks its rule."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from cacheinf_ros.catalog.scheduling.budgets import Account, Frequency
from cacheinf_ros.catalog.scheduling.cost_correction import CostCorrection
from cacheinf_ros.catalog.scheduling.decision import Option
from cacheinf_ros.catalog.scheduling.load_price import priced
from cacheinf_ros.catalog.scheduling.loaded_variants import LoadedVariants, Resident
from cacheinf_ros.catalog.scheduling.offer import Offer, Offers
from cacheinf_ros.catalog.variant import Place

_PRIOR = 5.0  # the demanded rate counts for so many requests


@dataclass(slots=True)
class ModelState:
    """What the scheduler knows about a model.

    Attributes:
        name: the model's name.
        options: its options, the most accurate first.
        demanded_hz: the rate of requests that is wanted; a variant that is too slow for it serves fewer.
        frequency: the rate of its requests since it was last loaded.
        uses_energy, uses_money: whether the option that was loaded last takes energy and money, evicted or not; True
            before any was loaded.
        requests, begun: requests since the budget began: all, and those that follow one for another model.
    """

    name: str
    options: tuple[Option, ...]
    demanded_hz: float
    frequency: Frequency
    uses_energy: bool = True
    uses_money: bool = True
    requests: int = 0
    begun: int = 0
    _left_out_s: dict[tuple[str, Place], float] = field(default_factory=dict)  # by variant and place: until when
    _on_device: tuple[Option, ...] = field(init=False)

    def __post_init__(self) -> None:
        self._on_device = tuple(option for option in self.options if option.place is Place.DEVICE)

    def asked(self, *, after: str) -> None:
        """Count a request for this model, given the model of the request before."""
        self.frequency.count += 1
        self.requests += 1
        self.begun += after != self.name

    def overall_hz(self, since_s: float) -> float:
        """Return the rate of requests over all of so many seconds since the budget began."""
        return (_PRIOR + self.requests) / (_PRIOR / self.demanded_hz + max(0.0, since_s))

    def needed_hz(self, now_s: float) -> float:
        """Return the rate that answers must keep pace with: the observed or the demanded one, whichever is higher."""
        return max(self.frequency.hz(now_s), self.demanded_hz)

    def reachable(self, connected: bool, now_s: float) -> Sequence[Option]:
        """Return the options that can be reached with or without the cloud, but for those that are left out then."""
        near = self.options if connected else self._on_device
        if not self._left_out_s:
            return near
        return tuple(option for option in near if self._left_out_until(option) <= now_s)

    def leave_out(self, option: Option, until_s: float) -> None:
        """Leave an option out until a time, as it cannot be loaded."""
        self._left_out_s[option.variant.name, option.place] = until_s

    def next_return_s(self, now_s: float) -> float:
        """Return when the next of the options that are left out may be chosen again; infinity where none is."""
        return min((until_s for until_s in self._left_out_s.values() if until_s > now_s), default=math.inf)

    def _left_out_until(self, option: Option) -> float:
        return self._left_out_s.get((option.variant.name, option.place), -math.inf)

    @property
    def begun_share(self) -> float:
        """The share of the model's requests that follow one for another model."""
        return (1 + self.begun) / (1 + self.requests)


@dataclass(slots=True, kw_only=True)
class Situation:
    """All models, and the budget and memory that they share.

    Attributes:
        models: the models, by name.
        loaded: the variants in the cache.
        account: what is left of the budget.
        correction: correction of costs by observations.
        begun_s, ends_s: when the budget begins and ends.
        price: factor by which the server's price is at present multiplied.
    """

    models: Mapping[str, ModelState]
    loaded: LoadedVariants
    account: Account
    correction: CostCorrection
    begun_s: float
    ends_s: float
    price: float = 1.0
    _offers: dict[tuple[str, bool, int], Offers] = field(default_factory=dict)
    _as_of: tuple[float, int] = (1.0, 0)  # the price and the observations of the offers

    def offers(self, model: ModelState, current: Option | None, now_s: float, *, connected: bool) -> Offers:
        """Return the options that can be reached, with their present costs, given the one that is loaded, if any.

        They are made anew only where something has changed: most requests come under the same conditions.
        """
        as_of = self.price, self.correction.observations
        if as_of != self._as_of:
            self._as_of = as_of
            self._offers.clear()
        options = model.reachable(connected, now_s)
        key = model.name, connected, id(current)  # what is loaded is one of the model's options, which stay
        known = self._offers.get(key)
        if known is None or known.options is not options:
            made = [self.offer(model.name, option, current) for option in options]
            known = self._offers[key] = Offers.of(options, made)
        return known

    def offer(self, model: str, option: Option, current: Option | None) -> Offer:
        """Return the option with its present costs, given the option that is loaded, if any."""
        cost = priced(option, self.correction.cost(model, option), self.price)
        load = (0.0, 0.0) if option is current else (cost.load_energy_j, cost.load_money)
        return Offer(option=option, cost=cost, load=load)


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """The question which option a model should have now.

    Attributes:
        situation: the state of all models.
        model: the model in question.
        now_s: the present time.
        connected: whether the cloud can be reached.
        resident: the model's variant in the cache; None: there is none that can serve.
    """

    situation: Situation
    model: ModelState
    now_s: float
    connected: bool
    resident: Resident | None

    @property
    def current(self) -> Option | None:
        """The option in the cache, or None."""
        return self.resident.option if self.resident else None

    @property
    def since_load_s(self) -> float:
        """The time since the variant was loaded, Δt_n of algorithm 1; infinity without one in the cache."""
        return self.now_s - self.resident.loaded_s if self.resident else math.inf

    def payable(self) -> Sequence[Offer]:
        """Return offers of the options that can be reached and that the rest of the budget pays for."""
        situation = self.situation
        offers = situation.offers(self.model, self.current, self.now_s, connected=self.connected)
        return offers.paid_by(situation.account)
