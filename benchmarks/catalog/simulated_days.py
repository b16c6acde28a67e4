# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Figures 11 and 12 of the MCDNN paper: simulated days of many models under a budget (its section 6.2)."""

from __future__ import annotations

import multiprocessing
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, replace
from enum import Enum
from itertools import islice
from typing import Any

import numpy as np

from benchmarks.catalog.algorithm_1 import WrittenScheduler
from benchmarks.catalog.requests import Trace, load_rate_of, random_trace
from benchmarks.catalog.setting import Progress, Setting
from benchmarks.catalog.simulation import Outcome, Serving, always, never, simulate
from cacheinf_ros.catalog.scheduling.budgets import Budget
from cacheinf_ros.catalog.scheduling.decision import Demand, Preference
from cacheinf_ros.catalog.scheduling.scheduler import Scheduler
from cacheinf_ros.catalog.variant import Catalog, Cost, Place, Variant

_SPECIAL_J, _SPECIAL_BYTES = 0.1, 10**6


class Scheme(Enum):
    """The variants that there are to choose from, and the rule that chooses."""

    ORIGINAL = "original"
    BEST = "best"
    ALL = "all"  # chosen by the paper's rule
    WRITTEN = "written"  # all variants, chosen by algorithm 1 without any of our additions
    PLANNED = "planned"  # all variants, chosen by our rule

    @property
    def preference(self) -> Preference | None:
        """See :class:`SimulatedDay`."""
        if self is Scheme.WRITTEN:
            return None
        return Preference.ACCURACY if self is Scheme.PLANNED else Preference.MCDNN


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedDay:
    """One trace under one set of rules.

    Attributes:
        setting: the requests and budgets.
        models: the models' catalogs, with the variants that may be chosen.
        preference: the scheduler's preference; None: :class:`.WrittenScheduler` serves.
        connected: whether the cloud is reached, for the whole day.
        load_rate, seed: arguments of the trace, see :func:`random_trace`.
    """

    setting: Setting
    models: Sequence[Catalog]
    preference: Preference | None = Preference.ACCURACY
    connected: bool
    load_rate: float
    seed: int


def simulate_day(day: SimulatedDay) -> tuple[Outcome, float]:
    """Simulate the day; return what happened and the processor time (s) that the simulation took."""
    setting, names = day.setting, [catalog.model for catalog in day.models]
    trace = trace_of(setting, names, day.load_rate, day.seed)
    rate_hz = setting.requests / setting.duration_s / len(names)
    started = time.process_time()
    demands = [Demand(catalog=catalog, rate_hz=rate_hz) for catalog in day.models]
    budget = Budget(energy_j=setting.energy_j, money=setting.money, horizon_s=setting.duration_s)
    scheduler: Serving = (
        WrittenScheduler(demands, budget, setting.cache_bytes)
        if day.preference is None
        else Scheduler(demands, budget, setting.cache_bytes, preference=day.preference)
    )
    outcome = simulate(scheduler, trace, always if day.connected else never)
    return outcome, time.process_time() - started


def trace_of(setting: Setting, names: Sequence[str], load_rate: float, seed: int) -> Trace:
    """Generate a day's requests."""
    return random_trace(names, requests=setting.requests, duration_s=setting.duration_s, load_rate=load_rate, seed=seed)


def run_figure_11(setting: Setting, progress: Progress) -> dict[str, Any]:
    """Simulate requests served, energy per request and accuracy by load rate for each scheme, without a cloud.

    The reported load rate is that of the originals, by :func:`load_rate_of` on the first day of each point.
    """
    models = setting.models
    points = {
        (scheme.value, str(rate)): SimulatedDay(
            setting=setting,
            models=[of_scheme(catalog, scheme, setting) for catalog in models],
            preference=scheme.preference,
            connected=False,
            load_rate=rate,
            seed=0,
        )
        for scheme in Scheme
        for rate in setting.load_rates
    }
    sizes = {catalog.model: original_of(catalog).costs[Place.DEVICE].memory_bytes for catalog in models}
    missed = [
        load_rate_of(trace_of(setting, list(sizes), rate, 0), sizes, setting.cache_bytes) for rate in setting.load_rates
    ]
    return {
        "models": len(models),
        "switch_rates": list(setting.load_rates),
        "load_rates": missed,
        "schemes": _run(points, setting, progress),
    }


def run_figure_12(setting: Setting, progress: Progress) -> dict[str, Any]:
    """Simulate the requests served as ever more models are specialised or shared, by sending energy and by policy.

    The policies choose where to execute. The cloud is always reached, and the battery holds
    :attr:`Setting.sending_budget_j`.
    """
    poor = replace(setting, energy_j=setting.sending_budget_j)
    policies: dict[str, Preference | None] = {preference.value: preference for preference in Preference}
    policies[Scheme.WRITTEN.value] = None
    points = {
        (f"{policy}, {sending_j:g} J", str(share)): SimulatedDay(
            setting=poor,
            models=[with_sending(catalog, sending_j) for catalog in specialised(setting.models, share)],
            preference=preference,
            connected=True,
            load_rate=setting.load_rate,
            seed=0,
        )
        for policy, preference in policies.items()
        for sending_j in setting.sending_j
        for share in setting.specialised
    }
    return {
        "load_rate": setting.load_rate,
        "energy_j": setting.sending_budget_j,
        "specialised": list(setting.specialised),
        "policies": _run(points, poor, progress),
    }


def specialised(models: Sequence[Catalog], share: float) -> list[Catalog]:
    """Give a share of the models, the first of every kind first, a variant such as specialising or sharing yields.

    It is as accurate as the original and takes a tenth of a joule and a megabyte, as the paper's figure 10 has it for
    both.
    """
    order = sorted(range(len(models)), key=lambda i: (models[i].model.rpartition("_")[2], i))
    chosen = set(order[: round(share * len(models))])
    return [_with_special(catalog) if i in chosen else catalog for i, catalog in enumerate(models)]


def _with_special(catalog: Catalog) -> Catalog:
    cost = Cost(energy_j=_SPECIAL_J, latency_ms=10.0, memory_bytes=_SPECIAL_BYTES, load_energy_j=_SPECIAL_J)
    accuracy = max(variant.accuracy for variant in catalog.variants)
    special = Variant(name="special", accuracy=accuracy, technique="specialised", costs={Place.DEVICE: cost})
    return replace(catalog, variants=(*catalog.variants, special))


def of_scheme(catalog: Catalog, scheme: Scheme, setting: Setting) -> Catalog:
    """Return the catalog with the variants that the scheme allows."""
    if scheme is Scheme.ORIGINAL:
        return replace(catalog, variants=(original_of(catalog),))
    if scheme is Scheme.BEST:
        return replace(catalog, variants=(at_the_knee(catalog, setting.cache_bytes),))
    return catalog


def original_of(catalog: Catalog) -> Variant:
    """Return the catalog's unmodified variant."""
    return next(variant for variant in catalog.variants if not variant.technique)


def at_the_knee(catalog: Catalog, cache_bytes: int) -> Variant:
    """Return the variant at the knee of accuracy over the logarithm of memory (the paper's figure 4).

    The knee is the point of the curve farthest above the line between its ends, with both axes scaled from 0 to 1.
    """
    points = sorted(
        ((v.costs[Place.DEVICE].memory_bytes, v.accuracy, v) for v in catalog.variants if Place.DEVICE in v.costs),
        key=lambda point: (point[0], -point[1]),
    )
    curve: list[tuple[int, float, Variant]] = []
    for point in points:
        if point[0] <= cache_bytes and (not curve or point[1] > curve[-1][1]):
            curve.append(point)
    if len(curve) == 1:
        return curve[0][2]
    size, accuracy = np.log([max(1, point[0]) for point in curve]), np.array([point[1] for point in curve])
    across, up = ((each - each[0]) / (each[-1] - each[0]) for each in (size, accuracy))
    return curve[int(np.argmax(up - across))][2]


def with_sending(catalog: Catalog, sending_j: float) -> Catalog:
    """Return the catalog where a request that leaves the device takes ``sending_j`` more joules."""

    def changed(place: Place, cost: Cost) -> Cost:
        return cost if place is Place.DEVICE else replace(cost, energy_j=cost.energy_j + sending_j)

    return replace(
        catalog,
        variants=tuple(
            replace(variant, costs={place: changed(place, cost) for place, cost in variant.costs.items()})
            for variant in catalog.variants
        ),
    )


def _run(
    points: Mapping[tuple[str, str], SimulatedDay], setting: Setting, progress: Progress
) -> dict[str, dict[str, Any]]:
    """Return the figures by contender and point, each over all traces; all contenders get the same traces."""
    days = [replace(day, seed=seed) for day in points.values() for seed in range(setting.traces)]
    found: dict[str, dict[str, Any]] = {}
    with ExitStack() as stack:
        results: Iterator[tuple[Outcome, float]] = map(simulate_day, days)
        if setting.workers > 1:
            spawn = multiprocessing.get_context("spawn")  # a fork of a process with torch's threads may hang
            results = stack.enter_context(ProcessPoolExecutor(setting.workers, mp_context=spawn)).map(
                simulate_day, days
            )
        for contender, point in points:
            progress(f"{contender}: {point}")
            found.setdefault(contender, {})[point] = figures(list(islice(results, setting.traces)))
    return found


def figures(results: Sequence[tuple[Outcome, float]]) -> dict[str, Any]:
    """Return means over traces, and standard deviations of what the paper's figures show."""
    outcomes = [outcome for outcome, _ in results]
    places: Counter[Place] = sum((outcome.places for outcome in outcomes), Counter())
    served = max(1, sum(places.values()))
    return {
        "served": _spread([outcome.served / outcome.requests for outcome in outcomes]),
        "energy_per_request_j": _spread([outcome.energy_per_request_j for outcome in outcomes]),
        "accuracy": _spread([outcome.accuracy for outcome in outcomes]),
        "accuracy_of_all": _spread([outcome.accuracy_of_all for outcome in outcomes]),
        "energy_j": _spread([outcome.energy_j for outcome in outcomes]),
        "money": _spread([outcome.money for outcome in outcomes]),
        "loads": _spread([outcome.loads for outcome in outcomes]),
        "places": {place.value: places[place] / served for place in Place},
        "day_s": max(seconds for _, seconds in results),
    }


def _spread(values: Sequence[float]) -> dict[str, float]:
    return {"mean": float(np.mean(values)), "std": float(np.std(values))}
