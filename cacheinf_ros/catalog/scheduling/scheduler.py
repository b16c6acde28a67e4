# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Which variant of a model serves a request, and where: MCDNN's algorithm 1 (section 5.3).

The paper's text was not at hand when this was written. Line 26 was known from notes and agrees with the
scheduler that the authors have published (github.com/haneul/mcdnn); the structure of PROCESS, CACHEUPDATE and
CATALOGLOOKUPRES is reconstructed from both. From the published program are: the sum of line 26 runs over the models
that draw on the resource; damping holds only where something is to be loaded; where nothing fits its budget the
cheapest variant serves while anything is left. Ours are: what sending takes of the battery counts as well; which is
the cheapest, and which of equally accurate options serves, is told by what they take of what is left until the end,
with loading; what has been evicted still counts in line 26; no request takes more than is left in all; what things
have really taken corrects what the catalog says. Equation 5 is kept with the time that is expected until the next
request, among what can be paid. The paper's limit on how long loading takes after a miss (lines 37 to 40) is left out.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from cacheinf_ros.catalog.scheduling.budgets import Account, Budget, Frequency, per_request, split_between
from cacheinf_ros.catalog.scheduling.cost_correction import CostCorrection
from cacheinf_ros.catalog.scheduling.decision import Decision, Demand, Load, Option, Preference, Why, options_of
from cacheinf_ros.catalog.scheduling.loaded_variants import LoadedVariants, Resident, device_bytes
from cacheinf_ros.catalog.scheduling.offer import Offer, in_time, most_accurate
from cacheinf_ros.catalog.variant import Catalog, Cost, Place
from cacheinf_ros.errors import CatalogError

_GROUPS = {
    Preference.ACCURACY: (tuple(Place),),
    Preference.SERVER_FIRST: ((Place.CLOUD,), (Place.SPLIT,), (Place.DEVICE,)),
    Preference.DEVICE_FIRST: ((Place.DEVICE,), (Place.SPLIT,), (Place.CLOUD,)),
}
_NOTHING = (0.0, 0.0)


@dataclass(slots=True)
class _Model:
    """What is known of a model.

    Attributes:
        name: of it.
        options: the most accurate first.
        demanded_hz: how often it is to be asked; by a variant that is too slow for that fewer requests are served.
        frequency: of its requests.
        uses_energy, uses_money: whether the option that was loaded last does, evicted or not; before that it may.
    """

    name: str
    options: tuple[Option, ...]
    demanded_hz: float
    frequency: Frequency
    uses_energy: bool = True
    uses_money: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class _Limits:
    """What a request of one model may take now, by line 26; pairs are of energy in J and of money in dollars.

    Attributes:
        remaining: in all.
        time_s, frequency_hz, squares_hz2: see :func:`per_request`.
        since_load_s: since the model was last loaded; infinity where it is not in the cache.
    """

    remaining: tuple[float, float]
    time_s: float
    frequency_hz: float
    squares_hz2: tuple[float, float]
    since_load_s: float

    @property
    def requests(self) -> float:
        """That are expected of the model until the end."""
        return self.frequency_hz * self.time_s

    def allow(self, option: Option, load: tuple[float, float]) -> tuple[float, float]:
        """(J, dollars) for the option, where so much is to be loaded (lines 24 to 30)."""
        energy_j, money = (
            per_request(
                self.remaining[i],
                time_s=self.time_s,
                frequency_hz=self.frequency_hz,
                squares_hz2=self.squares_hz2[i],
                load=load[i],
                since_load_s=self.since_load_s,
            )
            for i in (0, 1)
        )
        return split_between(energy_j, money, option.device_share) if option.place is Place.SPLIT else (energy_j, money)


class Scheduler:
    """Picks variants and places for the models of one robot. Not thread-safe.

    Times are seconds of any clock that does not go back.

    For each request call :meth:`choose`, load what it says, execute, and :meth:`spend` what that took. After a request
    that was served from the cache, and at leisure, call :meth:`update`; :meth:`apply` what it returns, load it, and
    :meth:`spend` what that took. Deterministic: equal calls have equal answers.

    Attributes:
        account: what is left of the budget.
        correction: of the catalogs' costs by what things really take; :meth:`CostCorrection.executed` and
            :meth:`CostCorrection.loaded` tell it.
    """

    def __init__(
        self,
        demands: Sequence[Demand],
        budget: Budget,
        cache_bytes: int,
        *,
        start_s: float = 0.0,
        preference: Preference = Preference.ACCURACY,
        correction: CostCorrection | None = None,
    ) -> None:
        """Raises :class:`CatalogError` where a model comes twice, or nothing of it runs in the cloud or fits the
        device's memory.
        """
        self.correction = correction or CostCorrection()
        self.account = Account(energy_j=budget.energy_j, money=budget.money)
        self._ends_s = start_s + budget.horizon_s
        self._groups = _GROUPS[preference]
        self._looks_at_sending = preference is not Preference.SERVER_FIRST
        self._loaded = LoadedVariants(cache_bytes)
        self._models: dict[str, _Model] = {}
        for demand in demands:
            name = demand.catalog.model
            if name in self._models:
                raise CatalogError(f"model {name!r} has two catalogs; give the models different names")
            frequency = Frequency(believed_hz=demand.rate_hz, since_s=start_s)
            self._models[name] = _Model(name, _that_fit(demand.catalog, cache_bytes), demand.rate_hz, frequency)

    @property
    def used_bytes(self) -> int:
        """Bytes of the device's memory that loaded variants take."""
        return self._loaded.used

    def choose(self, model: str, now_s: float, *, connected: bool = True) -> Decision:
        """Serve a request (PROCESS). What the decision loads counts as loaded from now on.

        Raises:
            CatalogError: no such model.
        """
        known = self._known(model)
        known.frequency.count += 1
        resident = self._loaded.get(model)
        if resident is not None and self._is_usable(model, resident.option, connected):
            self._loaded.touch(model)
            return Decision(model=model, option=resident.option, why=Why.IN_CACHE)
        option, why = self._look_up(known, now_s, connected)
        if option is None:
            return Decision(model=model, option=None, why=why)
        load = self._load(model, option, why)
        self.apply(load, now_s)
        return Decision(model=model, option=option, why=why, load=load)

    def update(self, model: str, now_s: float, *, connected: bool = True) -> Load | None:
        """What to load for the model in place of what it has in the cache (CACHEUPDATE after a hit); None: nothing.

        It is only proposed.

        Raises:
            CatalogError: no such model.
        """
        known = self._known(model)
        resident = self._loaded.get(model)
        if resident is None or not (connected or resident.option.place is Place.DEVICE):
            return None  # a request will be a miss
        option, why = self._look_up(known, now_s, connected, resident)
        return None if option is None or option is resident.option else self._load(model, option, why)

    def apply(self, load: Load, now_s: float) -> None:
        """The variant is in the cache from now on, what it evicts is not."""
        known = self._known(load.model)
        known.frequency.begin_anew(now_s)
        known.uses_energy, known.uses_money = load.cost.energy_j > 0, load.cost.money > 0
        self._loaded.put(load.model, load.option, now_s)

    def demand(self, demands: Sequence[Demand]) -> None:
        """The models are to be asked at these rates from now on.

        Raises:
            CatalogError: no such model.
        """
        for demand in demands:
            self._known(demand.catalog.model).demanded_hz = demand.rate_hz

    def spend(self, energy_j: float, money: float) -> None:
        """Executing or loading has taken joules and dollars, as measured or as predicted."""
        self.account.spend(energy_j, money)

    def _known(self, model: str) -> _Model:
        if model not in self._models:
            raise CatalogError(f"model {model!r} has no catalog; those that have are {', '.join(self._models)}")
        return self._models[model]

    def _is_usable(self, model: str, option: Option, connected: bool) -> bool:
        """Whether what is in the cache can be executed; whether it should stay there is :meth:`update`'s question."""
        return (connected or option.place is Place.DEVICE) and self._can_pay(
            self.correction.cost(model, option), _NOTHING
        )

    def _look_up(
        self, known: _Model, now_s: float, connected: bool, resident: Resident | None = None
    ) -> tuple[Option | None, Why]:
        """CATALOGLOOKUPRES in every place, and the best of what it finds."""
        reachable = [option for option in known.options if connected or option.place is Place.DEVICE]
        if not reachable:
            return None, Why.UNREACHABLE
        current = resident.option if resident else None
        limits = self._limits(known, now_s, now_s - resident.loaded_s if resident else math.inf)
        payable = [
            offer
            for offer in (self._offer(known.name, option, current) for option in reachable)
            if self._can_pay(offer.cost, offer.load)
        ]
        if not payable:
            return None, Why.USED_UP
        offers = in_time(payable, max(limits.frequency_hz, known.demanded_hz))

        def takes(offer: Offer) -> tuple[float, bool]:
            """Tell how much of what is left it takes until the end; where that is equal, what is loaded stays."""
            return self.account.share(offer.total(limits.requests)), offer.option is not current

        for places in self._groups:
            within = (offer for offer in offers if offer.option.place in places)
            best = list(most_accurate(offer for offer in within if self._fits(offer, limits, offer.load)))
            if best:
                return min(best, key=takes).option, Why.FITS
        if current is not None and any(self._fits(offer, limits, _NOTHING) for offer in offers):
            return current, Why.IN_CACHE  # only damping keeps from loading what fits
        return min(offers, key=takes).option, Why.CHEAPEST

    def _offer(self, model: str, option: Option, current: Option | None) -> Offer:
        cost = self.correction.cost(model, option)
        load = _NOTHING if option is current else (cost.load_energy_j, cost.load_money)
        return Offer(option=option, cost=cost, load=load)

    def _load(self, model: str, option: Option, why: Why) -> Load:
        return Load(model=model, option=option, evicts=self._loaded.in_the_way(model, option), why=why)

    def _fits(self, offer: Offer, limits: _Limits, load: tuple[float, float]) -> bool:
        cost = offer.cost
        energy_j, money = limits.allow(offer.option, load)
        sends_only = offer.option.place is Place.CLOUD and not self._looks_at_sending
        return (
            (cost.energy_j <= energy_j or cost.energy_j <= 0 or sends_only)
            and (cost.money <= money or cost.money <= 0)
            and self._can_pay(cost, load)
        )

    def _can_pay(self, cost: Cost, load: tuple[float, float]) -> bool:
        return self.account.covers(cost.energy_j + load[0], cost.money + load[1])

    def _limits(self, known: _Model, now_s: float, since_load_s: float) -> _Limits:
        rate_hz = energy_hz2 = money_hz2 = 0.0
        for model in self._models.values():
            hz = model.frequency.hz(now_s)
            rate_hz += hz
            energy_hz2 += hz * hz if model.uses_energy or model is known else 0.0
            money_hz2 += hz * hz if model.uses_money or model is known else 0.0
        return _Limits(
            remaining=(self.account.energy_j, self.account.money),
            time_s=max(self._ends_s - now_s, 1.0 / rate_hz),  # at the end, and after it, for one more request
            frequency_hz=known.frequency.hz(now_s),
            squares_hz2=(energy_hz2, money_hz2),
            since_load_s=since_load_s,
        )


def _that_fit(catalog: Catalog, cache_bytes: int) -> tuple[Option, ...]:
    options = tuple(option for option in options_of(catalog) if device_bytes(option) <= cache_bytes)
    if not options:
        raise CatalogError(
            f"catalog {catalog.model!r}: no variant runs in the cloud or fits {cache_bytes} bytes on the device; give "
            "the device more memory, or the catalog smaller variants"
        )
    return options
