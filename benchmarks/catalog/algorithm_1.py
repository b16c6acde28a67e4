# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""MCDNN's algorithm 1 as its text has it (section 5.3), to compare with the scheduler of the nodes.

:class:`WrittenScheduler` adds nothing to the algorithm. Where the text leaves something open, it does this:

* The frequency f_n of a model that is in no cache, or was not asked since it was loaded, is what was measured in its
  last stay, at first its declared rate.
* Δr_n, the cost to load n, is that of the variant in the cache.
* A sum over a cache without any model (line 26) is that of the requested model alone.
* The time in which a missed model must be loaded and executed (line 37) is that between two requests at the declared
  rate.
* Of equally accurate places the first is taken (line 16), of those equally accurate variants there that fit the budget
  the one that takes least energy, then money (line 17).
* Where no variant fits in any place, a miss is refused, and a hit stays as it is. A hit that cannot be paid for is
  refused, and changes nothing.
* Fragments of split models take their part of the device's memory; the cloud's is unlimited.

A battery that is empty executes nothing, and what runs in the cloud counts as missed while that is out of reach.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from cacheinf_ros.catalog.scheduling.budgets import Account, Budget, per_request, split_between
from cacheinf_ros.catalog.scheduling.decision import Decision, Demand, Load, Option, Why, options_of
from cacheinf_ros.catalog.scheduling.loaded_variants import LoadedVariants, device_bytes
from cacheinf_ros.catalog.variant import Place


@dataclass(slots=True)
class _Model:
    """A model's options, and what is profiled of its requests.

    Attributes:
        options: its variants in their places, the most accurate first.
        demanded_hz: its declared rate.
        last_hz: the frequency measured in its last stay in a cache.
        count: its requests since it was last loaded.
    """

    options: Sequence[Option]
    demanded_hz: float
    last_hz: float
    count: int = 0


class WrittenScheduler:
    """Serves requests by algorithm 1; has what :func:`.simulation.steps` needs of a scheduler.

    Times are seconds of any monotonic clock.

    Attributes:
        account: what is left of the budget: e and c of line 24.
    """

    def __init__(self, demands: Sequence[Demand], budget: Budget, cache_bytes: int, *, start_s: float = 0.0) -> None:
        """Begin the budget with nothing loaded."""
        self.account = Account(energy_j=budget.energy_j, money=budget.money)
        self._ends_s = start_s + budget.horizon_s
        self._loaded = LoadedVariants(cache_bytes)
        self._models = {
            demand.catalog.model: _Model(
                tuple(option for option in options_of(demand.catalog) if device_bytes(option) <= cache_bytes),
                demand.rate_hz,
                demand.rate_hz,
            )
            for demand in demands
        }

    def choose(self, model: str, now_s: float, *, connected: bool = True) -> Decision:
        """Decide how a request is served (PROCESS, lines 1 to 10)."""
        known = self._models[model]
        known.count += 1
        resident = self._loaded.get(model)
        if resident is not None and (connected or resident.option.place is Place.DEVICE):
            self._loaded.touch(model)
            is_paid = self.account.covers(resident.option.cost.energy_j, resident.option.cost.money)
            return Decision(
                model=model, option=resident.option if is_paid else None, why=Why.IN_CACHE if is_paid else Why.USED_UP
            )
        option = self._best(model, now_s, None, connected)
        if option is None:
            return Decision(model=model, option=None, why=Why.USED_UP)
        load, cost = self._load(model, option), option.cost
        if not self.account.covers(cost.energy_j + cost.load_energy_j, cost.money + cost.load_money):
            return Decision(model=model, option=None, why=Why.USED_UP)
        self.apply(load, now_s)
        return Decision(model=model, option=option, why=Why.FITS, load=load)

    def update(self, model: str, now_s: float, *, connected: bool = True) -> Load | None:
        """Propose what to load in place of what the model has in its cache (lines 4 and 13 to 20); None: nothing."""
        resident = self._loaded.get(model)
        if resident is None:
            return None
        option = self._best(model, now_s, resident.option, connected)
        if option is None or option is resident.option:
            return None
        if not self.account.covers(option.cost.load_energy_j, option.cost.load_money):
            return None
        return self._load(model, option)

    def apply(self, load: Load, now_s: float) -> None:
        """Insert the variant (CACHEINSERT, lines 45 to 52): the least recently used models make room for it."""
        for paged_out in (load.model, *load.evicts):
            self._models[paged_out].last_hz, self._models[paged_out].count = self._hz(paged_out, now_s), 0
        self._loaded.put(load.model, load.option, load.evicts, now_s)

    def spend(self, energy_j: float, money: float) -> None:
        """Subtract the joules and dollars that executing or loading took."""
        self.account.spend(energy_j, money)

    def budgets(self, model: str, now_s: float, *, is_miss: bool = False) -> tuple[float, float]:
        """Compute what a request may take: e_d in J and c_d in dollars (CALCPERREQUESTBUDGETS, lines 24 to 27)."""
        resident = None if is_miss else self._loaded.get(model)
        load_j, load_money, since_s = 0.0, 0.0, math.inf
        if resident is not None:
            load_j, load_money = resident.option.cost.load_energy_j, resident.option.cost.load_money
            since_s = now_s - resident.loaded_s
        return (
            self._per_request(self.account.energy_j, load_j, since_s, model, Place.DEVICE, now_s),
            self._per_request(self.account.money, load_money, since_s, model, Place.CLOUD, now_s),
        )

    def _per_request(self, left: float, load: float, since_s: float, model: str, place: Place, now_s: float) -> float:
        """Compute (r - Δr_n T / Δt_n) f_n / (T Σ f_i²) of line 26, i in the cache of a place."""
        squares = sum(self._hz(other, now_s) ** 2 for other in self._models if self._is_in(other, place))
        hz = self._hz(model, now_s)
        return per_request(
            left, time_s=max(self._ends_s - now_s, 1e-9), frequency_hz=hz, squares_hz2=squares or hz**2, load=load,
            since_load_s=since_s,
        )  # fmt: skip

    def _best(self, model: str, now_s: float, current: Option | None, connected: bool) -> Option | None:
        """Find v* in l* (CACHEUPDATE, lines 14 to 17, with CATALOGLOOKUPRES, lines 34 to 42); None: nothing fits."""
        energy_j, money = self.budgets(model, now_s, is_miss=current is None)
        fits: Mapping[Place, Callable[[Option], bool]] = {
            Place.DEVICE: lambda option: option.cost.energy_j <= energy_j,
            Place.SPLIT: lambda option: _is_within(option, *split_between(energy_j, money, option.device_share)),
            Place.CLOUD: lambda option: option.cost.money <= money,
        }
        found: list[tuple[float, Place]] = []
        for place in fits if connected else [Place.DEVICE]:
            there = [option for option in self._models[model].options if option.place is place]
            accuracy = max((option.variant.accuracy for option in there if fits[place](option)), default=None)
            if current is None:  # line 39
                loadable = max((o.variant.accuracy for o in there if self._loads_in_time(model, o)), default=None)
                accuracy = None if accuracy is None or loadable is None else min(loadable, accuracy)
            if accuracy is not None:
                found.append((accuracy, place))
        if not found:
            return None
        best, place = max(found, key=lambda each: each[0])  # line 16
        as_accurate = [o for o in self._models[model].options if o.place is place and o.variant.accuracy == best]
        within = [option for option in as_accurate if fits[place](option)] or as_accurate
        return min(within, key=lambda option: (option.cost.energy_j, option.cost.money))  # line 17

    def _loads_in_time(self, model: str, option: Option) -> bool:
        return option.cost.latency_ms + option.cost.load_ms <= 1e3 / self._models[model].demanded_hz

    def _hz(self, model: str, now_s: float) -> float:
        """Return f_i, measured since the model was paged in."""
        known, resident = self._models[model], self._loaded.get(model)
        if resident is None or now_s <= resident.loaded_s or not known.count:
            return known.last_hz
        return known.count / (now_s - resident.loaded_s)

    def _is_in(self, model: str, place: Place) -> bool:
        """Tell whether a model is in the cache of a place; a split one takes of the device's energy and the cloud's."""
        resident = self._loaded.get(model)
        return resident is not None and resident.option.place in (place, Place.SPLIT)

    def _load(self, model: str, option: Option) -> Load:
        return Load(model=model, option=option, evicts=self._loaded.in_the_way(model, option), why=Why.FITS)


def _is_within(option: Option, energy_j: float, money: float) -> bool:
    return option.cost.energy_j <= energy_j and option.cost.money <= money
