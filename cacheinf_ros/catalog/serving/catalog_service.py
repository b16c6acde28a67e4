# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Serves requests as the scheduler decides: by which variant, on the device or by the server, or refused."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Generic, TypeVar

from cacheinf_ros.catalog.scheduling import (
    Account,
    Budget,
    CostCorrection,
    Decision,
    Demand,
    Load,
    Option,
    Scheduler,
    Why,
)
from cacheinf_ros.catalog.serving.announcer import Announcer
from cacheinf_ros.catalog.serving.catalog_node_configs import CatalogBudgetConfig, CatalogConfig
from cacheinf_ros.catalog.serving.device_models import View
from cacheinf_ros.catalog.serving.left_out import LeftOut
from cacheinf_ros.catalog.serving.server_price import ServerPrice
from cacheinf_ros.catalog.serving.serving_places import Places
from cacheinf_ros.catalog.variant import Place
from cacheinf_ros.config import CurrentConfigs
from cacheinf_ros.energy import RequestEnergy, Spent
from cacheinf_ros.engine import EngineConfig
from cacheinf_ros.pipeline import Told, guarded
from cacheinf_ros.pipeline.frame_result import FrameResult

_LEAST_HORIZON_S = 1e-3  # of a budget whose time is over, the rest may be used freely
_LOST = "; the server had been chosen, but did not answer"
_MOST_TRIES = 8  # variants that may fail to load within one request
_PAUSE_S = 60.0  # how long, at first, a variant that could not be loaded on the device is not tried again
T = TypeVar("T")


class _CannotLoad(Told):
    """A variant that was chosen cannot be loaded, and is not chosen again for a while."""


class CatalogService(Generic[T]):
    """Serves requests from catalogs within a budget; not thread-safe."""

    def __init__(
        self,
        demands: Sequence[Demand],
        parameters: CurrentConfigs,
        places: Places[T],
        energy: RequestEnergy,
        announcer: Announcer,
        answer_of: Callable[[View, FrameResult], T],
        *,
        before: CatalogService[T] | None = None,
    ) -> None:
        """Begin the budget, or continue with what another service has left of it.

        Args:
            demands: the models and their rates.
            parameters: the node's parameters.
            places: where requests may be served.
            energy: measures the energy that requests take.
            announcer: tells the user about a new budget.
            answer_of: makes the answer to a request; the result's outputs are overwritten afterwards.
            before: the service, of other models, that this one replaces; it must not be used any more.
        """
        self._demands, self._parameters, self._energy = demands, parameters, energy
        self._device, self._split, self._cloud = places.device, places.split, places.cloud
        self._server_price = ServerPrice(places.server_load, announcer.note)
        self._price = 1.0  # factor on the server's usual price
        self._announcer, self._answer_of = announcer, answer_of
        self._view: View | None = None  # the latest
        self._hits: dict[str, None] = {}  # models served from the cache since the last idle time, in order
        self._loaded_as: dict[str, Why] = {}
        # the correction outlives a budget
        self._correction: CostCorrection = CostCorrection() if before is None else before._correction
        self._left_out = LeftOut(announcer)
        self._config, self._budget = parameters.get(CatalogConfig), parameters.get(CatalogBudgetConfig).budget
        goes_on = before is not None and before._budget == self._budget
        self._scheduler = self._begin(before.left if before and goes_on else self._budget)

    @property
    def models(self) -> tuple[str, ...]:
        """The names of the models, in the order of the demands."""
        return tuple(demand.catalog.model for demand in self._demands)

    @property
    def account(self) -> Account:
        """What is left of the budget."""
        return self._scheduler.account

    @property
    def left_s(self) -> float:
        """The time until the budget ends, seconds."""
        return self._ends_s - time.monotonic()

    @property
    def left(self) -> Budget:
        """The budget that is left, for the time that is left."""
        return Budget(
            energy_j=max(0.0, self.account.energy_j),
            money=max(0.0, self.account.money),
            horizon_s=max(_LEAST_HORIZON_S, self.left_s),
        )

    @property
    def used_bytes(self) -> int:
        """The bytes of device memory that variants take."""
        return self._scheduler.used_bytes

    def follow_parameters(self) -> None:
        """Apply changed parameters; a new budget begins with nothing loaded, as its scheduler is new."""
        old, old_budget = self._config, self._budget
        self._config = self._parameters.get(CatalogConfig)
        self._budget = self._parameters.get(CatalogBudgetConfig).budget
        if self._config.rates_hz != old.rates_hz:
            self._device.regroup()
            rates = zip(self._demands, self._config.rates_hz, strict=True)
            self._demands = tuple(replace(demand, rate_hz=rate) for demand, rate in rates)
            self._scheduler.demand(self._demands)
        if self._budget != old_budget:
            self._device.drop_all()
            self._hits.clear()
            self._scheduler = self._begin(self._budget)
            self._announcer.say(f"the budget begins anew: {self._budget}")

    def serve(self, model: str, view: View) -> T:
        """Answer a request.

        Raises:
            CacheinfError: the chosen variant cannot be run, or many cannot be loaded.
        """
        self._view = view
        self._settle(model)
        for number in range(_MOST_TRIES):
            with suppress(_CannotLoad):  # then without that variant
                return self._decided(model, view, again=number > 0)
        return self._decided(model, view, again=True, is_last=True)

    def _decided(self, model: str, view: View, *, again: bool, is_last: bool = False) -> T:
        """Answer a request as the scheduler decides.

        Args:
            again: whether it decided about this request before, and that could not be loaded.
            is_last: whether the device answers where the server cannot.

        Raises:
            CacheinfError: the chosen variant cannot be loaded or run.
        """
        decision = self._choose(model, connected=self._is_connected(model), again=again)
        why = self._why(decision)
        if decision.place is Place.CLOUD:
            assert decision.option is not None
            try:
                answer = self._ask(model, decision.option, view, why, is_new=decision.load is not None)
            except _CannotLoad:
                if not is_last:
                    raise
                answer = None
            if answer is not None:
                return answer
            decision = self._choose(model, connected=False, again=True)
            why = self._why(decision) + _LOST
        if decision.variant is None:
            mode = self._parameters.get(EngineConfig).mode
            refused = FrameResult.failed(model, mode, decision.why.value, where="", why=why)
            answer = self._answer_of(view, refused)
        else:
            answer = self._here(decision, view, why)
        if self._cloud is not None and self._scheduler.pays_for_cloud(model):
            self._scheduler.spend(0.0, self._price * self._cloud.probe(model, view))
        return answer

    def improve(self) -> None:
        """Use idle time: load a better variant, as the scheduler proposes after requests served from the cache.

        Raises:
            CacheinfError: the variant cannot be loaded.
        """
        if self._hits:
            model = next(iter(self._hits))
            del self._hits[model]
            self._update(model)
            self._device.audit(model, idle=True)

    def _begin(self, budget: Budget) -> Scheduler:
        start_s, preference = time.monotonic(), self._config.policy.preference
        self._ends_s = start_s + budget.horizon_s
        return Scheduler(
            self._demands, budget, self._capacity, start_s=start_s, preference=preference,
            correction=self._correction,
        )  # fmt: skip

    @property
    def _capacity(self) -> int:
        return round(self._config.device_memory_mb * 1e6)

    def _settle(self, model: str) -> None:
        if self._cloud is not None:
            self._cloud.settle(model)

    def _is_connected(self, model: str) -> bool:
        is_lost = self._split is not None and self._split.is_lost(model)
        return self._cloud is not None and self._cloud.is_up(model) and not is_lost

    def _choose(self, model: str, *, connected: bool, again: bool) -> Decision:
        self._follow_price()
        decide = self._scheduler.reconsider if again else self._scheduler.choose
        decision = decide(model, time.monotonic(), connected=connected)
        if decision.load is not None:
            self._make_room(decision.load)
        elif decision.option is not None:
            self._hits[model] = None
        return decision

    def _follow_price(self) -> None:
        self._price = self._server_price.factor(self._parameters.get(CatalogBudgetConfig).price_most)
        self._scheduler.price(self._price)

    def _make_room(self, load: Load) -> None:
        for other in load.evicts:
            self._device.drop(other)
        if self._split is not None:
            for other in self._split.in_the_way(load, self._capacity - self.used_bytes):
                self._device.drop(other)
        if load.option.place is Place.CLOUD:
            self._device.drop(load.model)
        self._loaded_as[load.model] = load.why

    def _why(self, decision: Decision) -> str:
        before = self._loaded_as.get(decision.model)
        if decision.why is not Why.IN_CACHE or before is None:
            return decision.why.value
        return f"{decision.why.value}; loaded as {before.value}"

    def _here(self, decision: Decision, view: View, why: str) -> T:
        option = decision.option
        assert option is not None
        begun, started = self._energy.begin(), time.perf_counter()
        try:
            was_loaded = self._load(decision.model, option)
            load_ms = _ms_since(started)
            if was_loaded or decision.load is not None:  # not for every request, as reading the meter reads files
                load_j = self._spend_computing(begun, started)
                begun, started = self._energy.begin(), time.perf_counter()
                if was_loaded and decision.load is not None:
                    self._correction.loaded(decision.model, option, load_j)
            result = self._device.run(decision.model, view)
            timed = result.after({"load": load_ms}) if decision.load else result
            answer = self._answer_of(view, replace(timed, why=why + result.why))
            self._device.audit(decision.model, idle=False)  # now, as it may overwrite the outputs
        finally:  # failures take energy too
            run_j = self._spend_computing(begun, started)
        self._correction.executed(decision.model, option, run_j)
        return answer

    def _load(self, model: str, option: Option) -> bool:
        """Load an option unless it is loaded, and drop others where memory is short; returns whether it was loaded now.

        Raises:
            _CannotLoad: that failed; nothing is loaded for the model then.
        """
        with guarded(f"loading {option.variant.name} of {model}") as failure:
            was_loaded = self._device.load(model, option.variant.name, option.place)
            while was_loaded and (evicted := self._scheduler.share(model, self._device.shared_parts())):
                for other in evicted:
                    self._device.drop(other)
        if failure:
            self._device.drop(model)
            self._leave_out(model, option, failure.reason, _PAUSE_S)
            raise _CannotLoad(f"{option.variant.name} of {model} cannot be loaded: {failure.reason}")
        if was_loaded:
            self._left_out.is_usable(model, option)
        if option.place is Place.SPLIT and self._cloud is not None:
            self._cloud.release(model)  # on a full server, the place is needed for sharing frames
        return was_loaded

    def _leave_out(self, model: str, option: Option, why: str, pause_s: float, *, grows: bool = True) -> None:
        pause_s = self._left_out.leave_out(model, option, why, pause_s, grows=grows)
        self._scheduler.failed(model, option, time.monotonic() + pause_s)

    def _ask(self, model: str, option: Option, view: View, why: str, *, is_new: bool) -> T | None:
        """Ask the server and pay for it, as far as is known where it gives no answer; returns None then.

        Raises:
            _CannotLoad: it gives none as it cannot load this variant, while it may have others.
        """
        assert self._cloud is not None
        begun, started = self._energy.begin(), time.perf_counter()
        found = self._cloud.ask(model, option.variant.name, view, why, is_new=is_new)
        spent = Spent(transmit_ms=found.link_ms)
        self._scheduler.spend(self._energy.end(begun, _ms_since(started), spent), self._price * found.money)
        if found.replaces and found.answer is None:
            self._scheduler.lost(model)
        if found.pause_s:
            self._leave_out(model, option, found.why, found.pause_s, grows=not found.is_full)
            raise _CannotLoad(f"{option.variant.name} of {model} cannot be loaded by the server: {found.why}")
        if found.answer is not None:
            self._left_out.is_usable(model, option)
            self._correction.paid(model, option, found.money - found.load_money)
        if found.class_id is not None:
            self._device.heard(model, found.class_id, view.stamp_ns)
        return found.answer

    def _update(self, model: str) -> None:
        self._follow_price()
        self._settle(model)
        now_s = time.monotonic()
        load = self._scheduler.update(model, now_s, connected=self._is_connected(model))
        if load is None or self._view is None:
            return
        place = load.option.place
        if place is Place.CLOUD and self._ask(model, load.option, self._view, "", is_new=True) is None:
            return  # the device keeps what it has loaded
        self._scheduler.apply(load, now_s)
        self._make_room(load)
        if place is not Place.CLOUD:
            begun, started = self._energy.begin(), time.perf_counter()
            try:
                was_loaded = self._load(model, load.option)
            finally:  # failures take energy too
                load_j = self._spend_computing(begun, started)
            if was_loaded:
                self._correction.loaded(model, load.option, load_j)

    def _spend_computing(self, begun_j: float | None, started: float) -> float:
        """Spend the device's energy since ``started``, without waits for the server; returns joules."""
        took_ms = _ms_since(started)
        spent, money = self._split.take(took_ms) if self._split else (Spent(compute_ms=took_ms), 0.0)
        energy_j = self._energy.end(begun_j, took_ms, spent)
        self._scheduler.spend(energy_j, self._price * money)
        return energy_j


def _ms_since(started: float) -> float:
    return 1e3 * (time.perf_counter() - started)
