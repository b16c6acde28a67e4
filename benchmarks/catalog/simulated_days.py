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

from benchmarks.catalog.requests import random_trace
from benchmarks.catalog.setting import Progress, Setting
from benchmarks.catalog.simulation import Outcome, always, never, simulate
from cacheinf_ros.catalog.scheduling.budgets import Budget
from cacheinf_ros.catalog.scheduling.decision import Demand, Preference
from cacheinf_ros.catalog.scheduling.scheduler import Scheduler
from cacheinf_ros.catalog.variant import Catalog, Cost, Place, Variant


class Scheme(Enum):
    """Which variants there are to choose from."""

    ORIGINAL = "original"
    BEST = "best"
    ALL = "all"


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedDay:
    """One trace under one regime.

    Attributes:
        setting: of requests and budgets.
        models: with the variants that there are.
        preference: of the scheduler.
        connected: whether the cloud is reached, all day.
        load_rate, seed: of the trace.
    """

    setting: Setting
    models: Sequence[Catalog]
    preference: Preference = Preference.ACCURACY
    connected: bool
    load_rate: float
    seed: int


def simulate_day(day: SimulatedDay) -> tuple[Outcome, float]:
    """Simulate it; what happened, and how many seconds of processor time that took."""
    setting, names = day.setting, [catalog.model for catalog in day.models]
    trace = random_trace(
        names, requests=setting.requests, duration_s=setting.duration_s, load_rate=day.load_rate, seed=day.seed
    )
    rate_hz = setting.requests / setting.duration_s / len(names)
    started = time.process_time()
    scheduler = Scheduler(
        [Demand(catalog=catalog, rate_hz=rate_hz) for catalog in day.models],
        Budget(energy_j=setting.energy_j, money=setting.money, horizon_s=setting.duration_s),
        setting.cache_bytes,
        preference=day.preference,
    )
    outcome = simulate(scheduler, trace, always if day.connected else never)
    return outcome, time.process_time() - started


def run_figure_11(setting: Setting, progress: Progress) -> dict[str, Any]:
    """Requests served, energy per request and accuracy by load rate, for the schemes; the device is alone."""
    models = setting.models
    schemes = {scheme.value: [of_scheme(catalog, scheme, setting) for catalog in models] for scheme in Scheme}
    points = {
        (name, str(rate)): SimulatedDay(setting=setting, models=chosen, connected=False, load_rate=rate, seed=0)
        for name, chosen in schemes.items()
        for rate in setting.load_rates
    }
    return {"models": len(models), "load_rates": list(setting.load_rates), "schemes": _run(points, setting, progress)}


def run_figure_12(setting: Setting, progress: Progress) -> dict[str, Any]:
    """The same by what sending takes, for the policies of where to execute; the cloud is always reached."""
    points = {
        (preference.value, str(sending_j)): SimulatedDay(
            setting=setting,
            models=[with_sending(catalog, sending_j) for catalog in setting.models],
            preference=preference,
            connected=True,
            load_rate=setting.load_rate,
            seed=0,
        )
        for preference in Preference
        for sending_j in setting.sending_j
    }
    sending = list(setting.sending_j)
    return {"load_rate": setting.load_rate, "sending_j": sending, "policies": _run(points, setting, progress)}


def of_scheme(catalog: Catalog, scheme: Scheme, setting: Setting) -> Catalog:
    """The catalog with the variants that the scheme allows.

    The best variant is the one that would have the highest mean accuracy on the device, if each request could take an
    equal part of the energy and loading took none.
    """
    if scheme is Scheme.ALL:
        return catalog
    if scheme is Scheme.ORIGINAL:
        return replace(catalog, variants=tuple(variant for variant in catalog.variants if not variant.technique))
    allowed_j = setting.energy_j / setting.requests

    def mean_accuracy(variant: Variant) -> float:
        cost = variant.costs.get(Place.DEVICE)
        if cost is None or cost.memory_bytes > setting.cache_bytes:
            return 0.0
        return variant.accuracy * (min(1.0, allowed_j / cost.energy_j) if cost.energy_j else 1.0)

    return replace(catalog, variants=(max(catalog.variants, key=mean_accuracy),))


def with_sending(catalog: Catalog, sending_j: float) -> Catalog:
    """The catalog where a request that leaves the device takes so much more energy."""

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
    """Figures by contender and point, each over all traces; the traces are the same for all contenders."""
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
    """Means over traces, and standard deviations of what the paper's figures show."""
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
