# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Traces of requests, and simulated days that follow them."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.catalog.requests import Trace, load_rate_of, random_trace
from benchmarks.catalog.simulation import always, never, simulate
from cacheinf_ros.catalog.scheduling.budgets import Budget
from cacheinf_ros.catalog.scheduling.decision import Demand, Why
from cacheinf_ros.catalog.scheduling.scheduler import Scheduler
from cacheinf_ros.catalog.variant import Catalog, Cost, Place, Variant
from cacheinf_ros.errors import ConfigError

ONE = Catalog(
    model="m",
    variants=(
        Variant(
            name="v",
            accuracy=0.8,
            costs={
                Place.DEVICE: Cost(energy_j=2.0, memory_bytes=10, load_energy_j=4.0),
                Place.CLOUD: Cost(money=0.5),
            },
        ),
    ),
)


def test_a_day_by_hand() -> None:
    """Loading takes 4 J and each request 2 J: 11 J are enough for three of four requests."""
    trace = Trace(times_s=(0.0, 1.0, 2.0, 3.0), models=("m",) * 4)
    robot = Scheduler([Demand(catalog=ONE)], Budget(energy_j=11.0, money=0.0, horizon_s=4.0), 10)
    outcome = simulate(robot, trace, never)
    assert (outcome.requests, outcome.served, outcome.loads) == (4, 3, 1)
    assert (outcome.energy_j, outcome.money, outcome.energy_per_request_j) == pytest.approx((10.0, 0.0, 10 / 3))
    assert (outcome.accuracy, outcome.accuracy_of_all) == pytest.approx((0.8, 0.6))
    assert outcome.places == {Place.DEVICE: 3} and outcome.refused == {Why.USED_UP: 1}


def test_the_connection_follows_the_clock() -> None:
    trace = Trace(times_s=tuple(map(float, range(10))), models=("m",) * 10)
    robot = Scheduler([Demand(catalog=ONE)], Budget(energy_j=0.0, horizon_s=10.0), 10)
    outcome = simulate(robot, trace, lambda time_s: time_s < 7)
    assert outcome.places == {Place.CLOUD: 7} and outcome.refused == {Why.USED_UP: 3}


def test_nothing_served_has_no_accuracy() -> None:
    robot = Scheduler([Demand(catalog=ONE)], Budget(energy_j=0.0, money=0.0, horizon_s=10.0), 10)
    outcome = simulate(robot, Trace(times_s=(1.0,), models=("m",)), always)
    assert (outcome.served, outcome.accuracy, outcome.energy_per_request_j) == (0, 0.0, 0.0)


@given(count=st.integers(1, 6), requests=st.integers(0, 300), load_rate=st.floats(0, 1), seed=st.integers(0, 2**31))
def test_random_traces(count: int, requests: int, load_rate: float, seed: int) -> None:
    names = [str(i) for i in range(count)]
    arguments = {"requests": requests, "duration_s": 50.0, "load_rate": load_rate, "seed": seed}
    trace = random_trace(names, **arguments)
    assert len(trace) == requests and all(0 <= time_s <= 50 and model in names for time_s, model in trace)
    assert trace == random_trace(names, **arguments)


def test_the_load_rate_is_how_often_the_model_changes() -> None:
    def changes(load_rate: float) -> float:
        models = random_trace("abcd", requests=20_000, duration_s=1.0, load_rate=load_rate, seed=3).models
        return sum(one != other for one, other in pairwise(models)) / len(models)

    assert changes(0.0) == 0.0
    assert changes(0.3) == pytest.approx(0.3, abs=0.02)
    assert changes(1.0) == pytest.approx(1.0, abs=0.001)


def test_impossible_traces_are_refused() -> None:
    with pytest.raises(ConfigError, match="do not go back"):
        Trace(times_s=(1.0, 0.5), models=("m", "m"))
    with pytest.raises(ConfigError, match="as many times"):
        Trace(times_s=(1.0,), models=())
    with pytest.raises(ConfigError, match="from 0 to 1"):
        random_trace("ab", requests=1, duration_s=1.0, load_rate=1.5, seed=0)


def test_the_load_rate_by_hand() -> None:
    """The cache's 100 bytes hold a and b, or c: of a a b c b, 60 + 40 + 100 + 40 bytes of 300 are missed."""
    trace = Trace(times_s=tuple(map(float, range(5))), models=tuple("aabcb"))
    assert load_rate_of(trace, {"a": 60, "b": 40, "c": 100}, 100) == pytest.approx(240 / 300)
