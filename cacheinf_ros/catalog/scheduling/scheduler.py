# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Decides which variant of a model serves a request, and where: MCDNN's algorithm 1 (section 5.3).

PROCESS, CACHEUPDATE and CACHEINSERT are the paper's. The option that suits a model is chosen by a rule, the paper's
(:mod:`.per_request_rule`) or ours (:mod:`.planned_rule`). These details of the paper's rule are from the program that
the authors have published (github.com/haneul/mcdnn): the sum of line 26 runs over the models that draw on the resource;
damping applies only where something is to be loaded; where nothing fits its budget, the cheapest variant serves while
anything is left. These are ours: the energy of sending counts as well; the cheapest, and the choice among equally
accurate options, is decided by the share of the remaining budget that they take until the end, with loading; what has
been evicted still counts in line 26; no request takes more than is left in all; observed costs correct those of the
catalog. Equation 5 holds for the expected time until the next request, among the options that can be paid for.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from cacheinf_ros.catalog.scheduling.budgets import Account, Budget, Frequency
from cacheinf_ros.catalog.scheduling.cost_correction import CostCorrection
from cacheinf_ros.catalog.scheduling.decision import Decision, Demand, Load, Option, Preference, Why, options_of
from cacheinf_ros.catalog.scheduling.loaded_variants import LoadedVariants, Resident, SharedPart, device_bytes
from cacheinf_ros.catalog.scheduling.model_state import ModelState, Question, Situation
from cacheinf_ros.catalog.scheduling.per_request_rule import PerRequestRule
from cacheinf_ros.catalog.scheduling.planned_rule import PlannedRule
from cacheinf_ros.catalog.variant import Catalog, Place
from cacheinf_ros.errors import CatalogError

_CLEARLY = 0.1  # relative change of a price that makes plans obsolete


class Scheduler:
    """Picks variants and places for the models of one robot; not thread-safe.

    Times are seconds of any monotonic clock.

    For each request call :meth:`choose`, load what it says, execute, and :meth:`spend` what that took. After a request
    that was served from the cache, when there is time, call :meth:`update`; :meth:`apply` what it returns, load it, and
    :meth:`spend` what that took. Call :meth:`failed` for what cannot be loaded, and :meth:`reconsider` where a request
    cannot be served as decided. Deterministic: equal calls have equal
    answers.

    Attributes:
        account: what is left of the budget.
        correction: correction of the catalogs' costs by observed ones, which the caller reports with
            :meth:`CostCorrection.executed` and :meth:`CostCorrection.loaded`.
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
        """Begin the budget with nothing loaded.

        Raises:
            CatalogError: a model comes twice, or none of its variants runs in the cloud or fits the device's memory.
        """
        self.correction = correction or CostCorrection()
        self.account = Account(energy_j=budget.energy_j, money=budget.money)
        self._loaded = LoadedVariants(cache_bytes)
        self._models: dict[str, ModelState] = {}
        for demand in demands:
            name = demand.catalog.model
            if name in self._models:
                raise CatalogError(f"model {name!r} has two catalogs; give the models different names")
            frequency = Frequency(believed_hz=demand.rate_hz, since_s=start_s)
            self._models[name] = ModelState(name, _that_fit(demand.catalog, cache_bytes), demand.rate_hz, frequency)
        self._situation = Situation(
            models=self._models, loaded=self._loaded, account=self.account, correction=self.correction,
            begun_s=start_s, ends_s=start_s + budget.horizon_s,
        )  # fmt: skip
        self._rule = PlannedRule() if preference is Preference.ACCURACY else PerRequestRule(preference)
        self._planned_price = 1.0
        self._latest = ""  # the model asked last

    @property
    def used_bytes(self) -> int:
        """The bytes of device memory that loaded variants take."""
        return self._loaded.used

    def choose(self, model: str, now_s: float, *, connected: bool = True) -> Decision:
        """Decide how a request is served (PROCESS, lines 1 to 10); what is to be loaded counts as loaded at once.

        Raises:
            CatalogError: the model is unknown.
        """
        known = self._known(model)
        known.asked(after=self._latest)
        self._latest = model
        self._rule.saw(connected)
        return self._decided(known, now_s, connected)

    def reconsider(self, model: str, now_s: float, *, connected: bool = True) -> Decision:
        """Decide again about the last request for a model, which could not be served as decided; it counts once.

        Raises:
            CatalogError: the model is unknown.
        """
        known = self._known(model)
        self._rule.saw(connected, again=True)
        return self._decided(known, now_s, connected)

    def _decided(self, known: ModelState, now_s: float, connected: bool) -> Decision:
        model = known.name
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
        """Propose what to load for a model in place of what it has in the cache (lines 4 and 13 to 20).

        Returns None where nothing is to be loaded. The proposal changes nothing until :meth:`apply`.

        Raises:
            CatalogError: the model is unknown.
        """
        known = self._known(model)
        resident = self._loaded.get(model)
        if resident is None or not (connected or resident.option.place is Place.DEVICE):
            return None  # the next request is a miss anyway, and loads
        option, why = self._look_up(known, now_s, connected, resident)
        return None if option is None or option is resident.option else self._load(model, option, why)

    def apply(self, load: Load, now_s: float) -> None:
        """Put the variant into the cache, and evict what it replaces (CACHEINSERT, lines 44 to 52)."""
        known = self._known(load.model)
        known.frequency.begin_anew(now_s)
        known.uses_energy, known.uses_money = load.option.cost.energy_j > 0, load.option.cost.money > 0
        self._loaded.put(load.model, load.option, load.evicts, now_s)

    def demand(self, demands: Sequence[Demand]) -> None:
        """Change the rates at which models are to be asked.

        Raises:
            CatalogError: a model is unknown.
        """
        for demand in demands:
            self._known(demand.catalog.model).demanded_hz = demand.rate_hz
        self._rule.expect_change()

    def failed(self, model: str, option: Option, until_s: float) -> None:
        """Do not choose an option before a time, as it cannot be loaded; it counts as loaded no more.

        Raises:
            CatalogError: the model is unknown.
        """
        self._known(model).leave_out(option, until_s)
        resident = self._loaded.get(model)
        if resident is not None and resident.option is option:
            self._loaded.remove(model)
        self._rule.expect_change()

    def lost(self, model: str) -> None:
        """Count what a model has in the cloud as loaded no more: the server has given it up.

        Raises:
            CatalogError: the model is unknown.
        """
        self._known(model)
        resident = self._loaded.get(model)
        if resident is not None and resident.option.place is Place.CLOUD:
            self._loaded.remove(model)

    def share(self, model: str, parts: Sequence[SharedPart]) -> tuple[str, ...]:
        """Set the parts that loaded variants have in common, whose memory counts once.

        Args:
            model: the model whose variant was loaded last.
            parts: all parts that are shared now.

        Returns:
            the models that were evicted, as not all variants fit the device's memory any more.
        """
        self._loaded.share(parts)
        evicted = self._loaded.too_many(model, self._rule.keeps())
        for other in evicted:
            self._loaded.remove(other)
        return evicted

    def price(self, factor: float) -> None:
        """Set the factor of the server's price; plans are made anew where it has clearly changed."""
        if abs(factor - self._planned_price) > _CLEARLY * self._planned_price:
            self._planned_price = factor
            self._rule.expect_change()
        self._situation.price = factor

    def spend(self, energy_j: float, money: float) -> None:
        """Subtract the joules and dollars that executing or loading took, measured or predicted, from the account."""
        self.account.spend(energy_j, money)

    def pays_for_cloud(self, model: str) -> bool:
        """Tell whether what is left pays for a request of the model in the cloud, if it can be reached.

        Raises:
            CatalogError: the model is unknown.
        """
        in_cloud = (option for option in self._known(model).options if option.place is Place.CLOUD)
        return any(self._is_usable(model, option, connected=True) for option in in_cloud)

    def _known(self, model: str) -> ModelState:
        if model not in self._models:
            raise CatalogError(f"model {model!r} has no catalog; those that have are {', '.join(self._models)}")
        return self._models[model]

    def _is_usable(self, model: str, option: Option, connected: bool) -> bool:
        """Tell whether what is in the cache can be executed; whether it should stay is :meth:`update`'s question."""
        is_reached = connected or option.place is Place.DEVICE
        return is_reached and self._situation.offer(model, option, option).is_paid_by(self.account)

    def _look_up(
        self, known: ModelState, now_s: float, connected: bool, resident: Resident | None = None
    ) -> tuple[Option | None, Why]:
        """Let the rule pick an option (lines 14 to 17)."""
        if not known.reachable(connected, now_s):
            return None, Why.LEFT_OUT if known.reachable(connected, math.inf) else Why.UNREACHABLE
        situation = self._situation
        return self._rule.pick(
            Question(situation=situation, model=known, now_s=now_s, connected=connected, resident=resident)
        )

    def _load(self, model: str, option: Option, why: Why) -> Load:
        evicts = self._loaded.in_the_way(model, option, self._rule.keeps())
        return Load(model=model, option=option, evicts=evicts, why=why)


def _that_fit(catalog: Catalog, cache_bytes: int) -> tuple[Option, ...]:
    options = tuple(option for option in options_of(catalog) if device_bytes(option) <= cache_bytes)
    if not options:
        raise CatalogError(
            f"catalog {catalog.model!r}: no variant runs in the cloud or fits {cache_bytes} bytes on the device; give "
            "the device more memory, or the catalog smaller variants"
        )
    return options
