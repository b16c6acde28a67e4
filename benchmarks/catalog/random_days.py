# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Random days against the oracle: catalogs, loads, connections and budgets that the scheduler does not foresee."""

from __future__ import annotations

import multiprocessing
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import numpy as np

from benchmarks.catalog.oracle import most_accurate_day
from benchmarks.catalog.requests import Trace
from benchmarks.catalog.setting import Progress, Setting
from benchmarks.catalog.simulation import Outcome, simulate
from cacheinf_ros.catalog.scheduling.budgets import Budget
from cacheinf_ros.catalog.scheduling.decision import Demand, Preference
from cacheinf_ros.catalog.scheduling.scheduler import Scheduler
from cacheinf_ros.catalog.variant import Catalog, Cost, Place, Variant

DAY_S = 36_000.0
_NEAR = 0.98  # share of the oracle's accuracy
_EXACT = 1e-6  # tolerance for rounding of sums, J and dollars
_MB = 10**6


@dataclass(frozen=True, slots=True, kw_only=True)
class RandomDay:
    """One random day.

    Attributes:
        catalogs: the models' catalogs.
        trace: the requests.
        connected: tells whether the cloud is reached at a time (s).
        budget: the budget for the day.
        cache_bytes: the device's memory.
    """

    catalogs: tuple[Catalog, ...]
    trace: Trace
    connected: Callable[[float], bool]
    budget: Budget
    cache_bytes: int


def random_day(seed: int, *, requests: int = 10_000) -> RandomDay:
    """Generate a day of 2 to 8 models.

    How often each is asked follows Zipf's law with an exponent from 0 to 1.5, and requests for one model come in runs
    of 1 to 20 on average. The cloud is reached all day, never, or by turns of 10 minutes to 2 hours on average. Budgets
    lie between what the cheapest variants of all models would take on the device and what the originals would take
    there; the money is between nothing and the originals' cost in the cloud. The device's memory holds all originals,
    or half.
    """
    rng = np.random.default_rng(seed)
    catalogs = tuple(_catalog(f"m{i}", rng) for i in range(rng.integers(2, 9)))
    trace = _zipf_trace([catalog.model for catalog in catalogs], requests, rng)
    connected = _connection(rng)
    asked = Counter((model, connected(time_s)) for time_s, model in trace)
    cheapest = most = paid = 0.0
    for catalog in catalogs:
        number = asked[catalog.model, True] + asked[catalog.model, False]
        joules = [variant.costs[Place.DEVICE].energy_j for variant in catalog.variants]
        loading = max(variant.costs[Place.DEVICE].load_energy_j for variant in catalog.variants)
        cheapest += number * min(joules) + 4 * loading
        most += number * max(joules) + 4 * loading
        paid += asked[catalog.model, True] * catalog.variants[0].costs[Place.CLOUD].money
    memory = sum(catalog.variants[0].costs[Place.DEVICE].memory_bytes for catalog in catalogs)
    energy_j = cheapest + rng.uniform(0.05, 1.0) * (most - cheapest)
    budget = Budget(energy_j=float(energy_j), money=float(rng.uniform(0.0, 1.0) * paid), horizon_s=DAY_S)
    return RandomDay(
        catalogs=catalogs, trace=trace, connected=connected, budget=budget,
        cache_bytes=round(memory * rng.choice((0.5, 1.0))),
    )  # fmt: skip


def live(day: RandomDay, preference: Preference = Preference.ACCURACY) -> Outcome:
    """Simulate the day with the scheduler, which expects requests for all models equally often."""
    rate_hz = len(day.trace) / DAY_S / len(day.catalogs)
    demands = [Demand(catalog=catalog, rate_hz=rate_hz) for catalog in day.catalogs]
    return simulate(Scheduler(demands, day.budget, day.cache_bytes, preference=preference), day.trace, day.connected)


def best(day: RandomDay) -> float:
    """Return the accuracy that no schedule of the day can surpass: see :func:`most_accurate_day`."""
    return most_accurate_day(day.catalogs, day.budget, day.cache_bytes, day.trace, day.connected)


def run_random_days(setting: Setting, progress: Progress) -> dict[str, Any]:
    """Compare our rule and the paper's on random days with the oracle's upper bound; see :func:`random_day`."""
    with ExitStack() as stack:
        judged: Iterator[dict[str, Any]] = map(_judged, range(setting.days))
        if setting.workers > 1:
            spawn = multiprocessing.get_context("spawn")  # a fork of a process with torch's threads may hang
            pool = stack.enter_context(ProcessPoolExecutor(setting.workers, mp_context=spawn))
            judged = pool.map(_judged, range(setting.days))
        days = []
        for day in judged:
            days.append(day)
            progress(f"random day {len(days)} of {setting.days}")
    rules = {}
    for rule in (Preference.ACCURACY, Preference.MCDNN):
        over = np.array([day["rules"][rule.value]["over_oracle"] for day in days])
        rules[rule.value] = {
            "mean": float(over.mean()),
            "least": float(over.min()),
            "within_2_percent": float((over >= _NEAR).mean()),
            "served": float(np.mean([day["rules"][rule.value]["served"] for day in days])),
            "broken_budgets": sum(day["rules"][rule.value]["is_broken"] for day in days),
        }
    return {"days": days, "rules": rules}


def _judged(seed: int) -> dict[str, Any]:
    day = random_day(seed)
    oracle, budget, rules = best(day), day.budget, {}
    for rule in (Preference.ACCURACY, Preference.MCDNN):
        outcome = live(day, rule)
        rules[rule.value] = {
            "accuracy": outcome.accuracy_of_all,
            "over_oracle": outcome.accuracy_of_all / oracle,
            "served": outcome.served / outcome.requests,
            "energy": outcome.energy_j / budget.energy_j,
            "money": outcome.money / budget.money if budget.money else 0.0,
            "loads": outcome.loads,
            "is_broken": bool(outcome.energy_j > budget.energy_j + _EXACT or outcome.money > budget.money + _EXACT),
        }
    connected = float(np.mean([day.connected(time_s) for time_s in day.trace.times_s]))
    return {"seed": seed, "models": len(day.catalogs), "connected": connected, "oracle": oracle, "rules": rules}


def _catalog(model: str, rng: np.random.Generator) -> Catalog:
    """Make an original and 2 to 7 variants; loading takes 2 to 5 times as much as a request (the paper's figure 5)."""
    accuracy, energy_j, mb = rng.uniform(0.6, 0.99), float(np.exp(rng.uniform(-2, 2))), rng.uniform(20, 500)
    loading, sending_j, dollars = rng.uniform(2, 5), float(np.exp(rng.uniform(-3, 0))), rng.uniform(1e-7, 1e-5)
    falling, variants = rng.uniform(0.05, 0.5), []
    parts = [1.0, *np.sort(rng.uniform(0.05, 0.9, rng.integers(2, 8)))[::-1]]
    for i, part in enumerate(parts):
        device_j = energy_j * part
        variants.append(
            Variant(
                name=f"v{i}",
                accuracy=float(accuracy * (1 - falling * (1 - part) ** rng.uniform(1.5, 3.0))),
                technique="t" if i else "",
                costs={
                    Place.DEVICE: Cost(
                        energy_j=device_j, memory_bytes=round(mb * part * _MB), load_energy_j=loading * device_j
                    ),
                    Place.CLOUD: Cost(energy_j=sending_j, money=dollars * part),
                },
            )
        )
    return Catalog(model=model, variants=tuple(variants))


def _zipf_trace(models: list[str], requests: int, rng: np.random.Generator) -> Trace:
    weights = np.arange(1, len(models) + 1) ** -rng.uniform(0.0, 1.5)
    run = rng.uniform(1.0, 20.0)
    chosen = rng.choice(len(models), requests, p=weights / weights.sum())
    begins = np.flatnonzero(rng.random(requests) < 1 / run)
    last = np.searchsorted(begins, np.arange(requests), side="right") - 1
    times = np.sort(rng.uniform(0.0, DAY_S, requests))
    asked = chosen[begins[np.maximum(last, 0)]] if len(begins) else chosen[:1].repeat(requests)
    return Trace(times_s=tuple(times.tolist()), models=tuple(models[i] for i in asked.tolist()))


def _connection(rng: np.random.Generator) -> Callable[[float], bool]:
    kind = rng.integers(4)
    if kind < 2:
        return lambda time_s: bool(kind)
    there_s, away_s = rng.uniform(600, 7200, 2)
    lengths = [rng.exponential(there_s if i % 2 == 0 else away_s) for i in range(200)]
    ends = list(accumulate(lengths))
    return lambda time_s: bisect_right(ends, time_s) % 2 == 0
