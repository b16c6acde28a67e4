# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""What the scheduler knows of a model, and the question that it puts to its rule."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cacheinf_ros.catalog.scheduling.budgets import Account, Frequency
from cacheinf_ros.catalog.scheduling.cost_correction import CostCorrection
from cacheinf_ros.catalog.scheduling.decision import Option
from cacheinf_ros.catalog.scheduling.load_price import priced
from cacheinf_ros.catalog.scheduling.loaded_variants import LoadedVariants, Resident
from cacheinf_ros.catalog.scheduling.offer import Offer
from cacheinf_ros.catalog.variant import Place

_PRIOR = 5.0  # requests that the demanded rate is worth


@dataclass(slots=True)
class ModelState:
    """What is known of a model.

    Attributes:
        name: of it.
        options: the most accurate first.
        demanded_hz: how often it is to be asked; by a variant that is too slow for that fewer requests are served.
        frequency: of its requests, since it was last loaded.
        uses_energy, uses_money: whether the option that was loaded last does, evicted or not; before that it may.
        requests, begun: since the budget began: all, and those before which another model was asked.
    """

    name: str
    options: tuple[Option, ...]
    demanded_hz: float
    frequency: Frequency
    uses_energy: bool = True
    uses_money: bool = True
    requests: int = 0
    begun: int = 0

    def asked(self, *, after: str) -> None:
        """A request of it follows one of a model."""
        self.frequency.count += 1
        self.requests += 1
        self.begun += after != self.name

    def overall_hz(self, since_s: float) -> float:
        """How often it is asked, over all of so many seconds since the budget began."""
        return (_PRIOR + self.requests) / (_PRIOR / self.demanded_hz + max(0.0, since_s))

    def needed_hz(self, now_s: float) -> float:
        """How often it is asked, or is to be, whichever is more: what answers must keep pace with."""
        return max(self.frequency.hz(now_s), self.demanded_hz)

    def reachable(self, connected: bool) -> Sequence[Option]:
        """The options with or without the cloud."""
        return [option for option in self.options if connected or option.place is Place.DEVICE]

    @property
    def begun_share(self) -> float:
        """Which share of its requests comes after one of another model."""
        return (1 + self.begun) / (1 + self.requests)


@dataclass(slots=True, kw_only=True)
class Situation:
    """Knows all models, and what is left for them.

    Attributes:
        models: by name.
        loaded: what is in the cache.
        account: what is left.
        correction: of costs.
        begun_s, ends_s: when the budget begins and ends.
        price: how many times its usual price the server costs at present.
    """

    models: Mapping[str, ModelState]
    loaded: LoadedVariants
    account: Account
    correction: CostCorrection
    begun_s: float
    ends_s: float
    price: float = 1.0

    def offer(self, model: str, option: Option, current: Option | None) -> Offer:
        """An option as it presents itself where another one, or nothing, is loaded."""
        cost = priced(option, self.correction.cost(model, option), self.price)
        load = (0.0, 0.0) if option is current else (cost.load_energy_j, cost.load_money)
        return Offer(option=option, cost=cost, load=load)


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """Which option a model should have now.

    Attributes:
        situation: of all models.
        model: that is asked.
        now_s: the present.
        connected: whether the cloud is reached.
        resident: what the model has in the cache; None: nothing that serves.
    """

    situation: Situation
    model: ModelState
    now_s: float
    connected: bool
    resident: Resident | None

    @property
    def current(self) -> Option | None:
        """What is in the cache."""
        return self.resident.option if self.resident else None

    @property
    def since_load_s(self) -> float:
        """Δt_n of algorithm 1; infinity for what is not in the cache."""
        return self.now_s - self.resident.loaded_s if self.resident else math.inf

    def payable(self) -> list[Offer]:
        """The options that can be reached, and that what is left pays for."""
        current, account = self.current, self.situation.account
        offers = (self.situation.offer(self.model.name, o, current) for o in self.model.reachable(self.connected))
        return [offer for offer in offers if offer.is_paid_by(account)]
