# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""MCDNN's algorithm 1 as written, line by line, by hand."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from benchmarks.catalog.algorithm_1 import WrittenScheduler
from benchmarks.catalog.requests import random_trace
from benchmarks.catalog.simulation import simulate
from cacheinf_ros.catalog.scheduling.budgets import Budget
from cacheinf_ros.catalog.scheduling.decision import Decision, Demand, Why
from cacheinf_ros.catalog.variant import Catalog, Cost, Place, Variant

LARGE = Variant(
    name="large", accuracy=0.9, costs={Place.DEVICE: Cost(energy_j=4.0, memory_bytes=80, load_energy_j=8.0)}
)
SMALL = Variant(
    name="small", accuracy=0.6, costs={Place.DEVICE: Cost(energy_j=1.0, memory_bytes=20, load_energy_j=2.0)}
)
REMOTE = Variant(name="remote", accuracy=0.9, costs={Place.CLOUD: Cost(energy_j=50.0, money=0.01)})


def serving(
    *variants: Variant, models: str = "m", energy_j: float = math.inf, money: float = math.inf
) -> WrittenScheduler:
    """Return a scheduler for 100 s, with 100 bytes of memory, that expects each model to be asked once a second."""
    demands = [Demand(catalog=Catalog(model=name, variants=variants), rate_hz=1.0) for name in models]
    return WrittenScheduler(demands, Budget(energy_j=energy_j, money=money, horizon_s=100.0), 100)


def serve(scheduler: WrittenScheduler, time_s: float, model: str = "m", *, connected: bool = True) -> Decision:
    decision = scheduler.choose(model, time_s, connected=connected)
    scheduler.spend(*decision.predicted)
    return decision


def chosen(decision: Decision) -> str | None:
    return decision.variant and decision.variant.name


def test_line_26() -> None:
    """Loaded at 0 s and asked twice since: f = 0.2 a second; 12 J went at first, 4 J each time since."""
    scheduler = serving(LARGE, energy_j=1000.0)
    for time_s in (0.0, 4.0, 10.0):
        assert chosen(serve(scheduler, time_s)) == "large"
    energy_j, money = scheduler.budgets("m", 10.0)
    assert energy_j == pytest.approx((980 - 8 * 90 / 10) * 0.2 / (90 * 0.2**2))
    assert money == math.inf


def test_the_sum_is_over_the_cache() -> None:
    """Two small models are loaded; a third, which is not, has a share by the frequencies of these two alone."""
    scheduler = serving(SMALL, models="abc", energy_j=1000.0)
    for time_s, model in ((0.0, "a"), (0.0, "b"), (5.0, "a"), (10.0, "a"), (10.0, "b")):
        serve(scheduler, time_s, model)
    left = 1000.0 - 5 * 1.0 - 2 * 2.0
    assert scheduler.budgets("a", 10.0)[0] == pytest.approx((left - 2 * 90 / 10) * 0.2 / (90 * (0.2**2 + 0.1**2)))
    assert scheduler.budgets("c", 10.0)[0] == pytest.approx(left * 1.0 / (90 * (0.2**2 + 0.1**2)))  # c is not in it


def test_an_empty_cache_leaves_all_to_the_first() -> None:
    assert serving(SMALL, energy_j=1000.0).budgets("m", 0.0)[0] == pytest.approx(1000 / 100)


def test_lines_28_and_29() -> None:
    """A third of the work is the device's: a third of the energy's budget, and two thirds of the money's."""
    split = Cost(energy_j=3.0, money=0.02)
    both = Variant(name="both", accuracy=0.8, costs={Place.SPLIT: split, Place.CLOUD: Cost(money=0.03)})
    assert serve(serving(both, energy_j=903.0, money=3.01), 0.0).place is Place.SPLIT  # 3 J and $0.02, just enough
    assert serve(serving(both, energy_j=880.0, money=3.01), 0.0).place is Place.CLOUD
    assert serve(serving(both, energy_j=903.0, money=2.90), 0.0).option is None


def test_the_most_accurate_that_fits() -> None:
    """Lines 14 to 17: 3 J a request are too little for the large variant; sending does not count."""
    assert chosen(serve(serving(LARGE, SMALL, energy_j=300.0), 0.0)) == "small"
    assert chosen(serve(serving(LARGE, SMALL, energy_j=500.0), 0.0)) == "large"
    assert chosen(serve(serving(REMOTE, SMALL, energy_j=300.0, money=2.0), 0.0)) == "remote"


def test_of_equally_accurate_places_the_first() -> None:
    scheduler = serving(REMOTE, LARGE)
    assert serve(scheduler, 0.0).place is Place.DEVICE
    assert serve(serving(REMOTE, LARGE, energy_j=300.0), 0.0).place is Place.CLOUD


def test_of_equally_accurate_variants_the_cheapest() -> None:
    thrifty = replace(LARGE, name="thrifty", costs={Place.DEVICE: Cost(energy_j=0.1, memory_bytes=1)})
    assert chosen(serve(serving(LARGE, thrifty, SMALL), 0.0)) == "thrifty"


def test_a_miss_loads_what_loads_in_time() -> None:
    """Lines 37 to 40: loading the large variant takes two seconds, requests come every second; a hit may change."""
    slow = Cost(energy_j=4.0, memory_bytes=80, load_energy_j=8.0, load_ms=2000.0)
    scheduler = serving(replace(LARGE, costs={Place.DEVICE: slow}), SMALL)
    assert chosen(serve(scheduler, 0.0)) == "small"
    assert serve(scheduler, 1.0).why is Why.IN_CACHE
    update = scheduler.update("m", 1.0)
    assert update is not None
    assert update.option.variant.name == "large"
    scheduler.apply(update, 1.0)
    assert chosen(serve(scheduler, 2.0)) == "large"


def test_the_least_recently_used_makes_room() -> None:
    """Lines 47 to 49."""
    scheduler = serving(LARGE, models="ab")
    serve(scheduler, 0.0, "a")
    load = serve(scheduler, 1.0, "b").load
    assert load is not None
    assert load.evicts == ("a",)
    assert serve(scheduler, 2.0, "a").load is not None


def test_where_nothing_fits() -> None:
    """A miss is refused, and a hit stays."""
    assert serve(serving(LARGE, energy_j=300.0), 0.0).why is Why.USED_UP
    scheduler = serving(LARGE, energy_j=500.0)
    assert chosen(serve(scheduler, 0.0)) == "large"
    scheduler.spend(400.0, 0.0)
    assert scheduler.update("m", 1.0) is None
    assert chosen(serve(scheduler, 1.0)) == "large"


def test_out_of_reach_is_missed() -> None:
    scheduler = serving(REMOTE, SMALL)
    assert chosen(serve(scheduler, 0.0)) == "remote"
    assert chosen(serve(scheduler, 1.0, connected=False)) == "small"
    assert serve(serving(REMOTE), 0.0, connected=False).option is None


def test_a_battery_is_never_overdrawn() -> None:
    trace = random_trace("abc", requests=300, duration_s=100.0, load_rate=0.3, seed=1)
    for energy_j in (50.0, 500.0, 5000.0):
        scheduler = serving(LARGE, SMALL, models="abc", energy_j=energy_j)
        outcome = simulate(scheduler, trace)
        assert outcome.energy_j <= energy_j
        assert scheduler.account.energy_j == pytest.approx(energy_j - outcome.energy_j)
        assert (outcome.served == outcome.requests) == (energy_j == 5000.0)
