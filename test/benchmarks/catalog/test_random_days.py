# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The scheduler against an oracle that knows the day; docs/catalog.md has 200 days."""

from __future__ import annotations

import pytest

from benchmarks.catalog.oracle import most_accurate_day
from benchmarks.catalog.random_days import best, live, random_day
from benchmarks.catalog.requests import Trace
from benchmarks.catalog.simulation import simulate
from cacheinf_ros.catalog.scheduling.budgets import Budget
from cacheinf_ros.catalog.scheduling.decision import Demand
from cacheinf_ros.catalog.scheduling.scheduler import Scheduler
from cacheinf_ros.catalog.variant import Catalog, Cost, Place, Variant


def test_an_oracle_by_hand() -> None:
    """The oracle agrees with a day worked out by hand.

    There are ten requests and 14 J. The small variant takes 1 J each and 1 J to load, which leaves 3 J. The large one
    takes 2 J and 1 J to load: two of ten requests get it. Four of the ten may also be sent, for 0.3 of one dollar each:
    three of those are.
    """
    costs = [{Place.DEVICE: Cost(energy_j=energy_j, load_energy_j=1.0)} for energy_j in (2.0, 1.0)]
    there = {Place.CLOUD: Cost(money=0.3)}
    device = (Variant(name="l", accuracy=0.9, costs=costs[0]), Variant(name="s", accuracy=0.6, costs=costs[1]))
    trace = Trace(times_s=tuple(map(float, range(10))), models=("m",) * 10)
    alone = Catalog(model="m", variants=device)
    budget = Budget(energy_j=14.0, money=1.0, horizon_s=10.0)
    assert most_accurate_day([alone], budget, 10, trace, lambda _: True) == pytest.approx((2 * 0.9 + 8 * 0.6) / 10)
    helped = Catalog(model="m", variants=(*device, Variant(name="c", accuracy=0.8, costs=there)))
    # three are sent, seven computed here with 12 J beside loading: five by the large one, two by the small one
    best_of_all = (3 * 0.8 + 5 * 0.9 + 2 * 0.6) / 10
    assert most_accurate_day([helped], budget, 10, trace, lambda t: t < 4) == pytest.approx(best_of_all)


@pytest.mark.parametrize("seed", [3, 4])
def test_a_day_is_nearly_as_accurate_as_can_be(seed: int) -> None:
    day = random_day(seed, requests=2000)
    outcome = live(day)
    assert outcome.energy_j <= day.budget.energy_j and outcome.money <= day.budget.money
    assert outcome.accuracy_of_all >= 0.98 * best(day)


def _model(name: str, ms: float) -> Catalog:
    """Make an original and three variants with fewer kernels: 10 W here, 4 mJ to send, loaded in 15 ms."""
    parts = {1.0: 0.99, 0.6: 0.97, 0.36: 0.9, 0.15: 0.6}
    return Catalog(
        model=name,
        variants=tuple(
            Variant(
                name=f"{part:g}",
                accuracy=accuracy,
                costs={
                    Place.DEVICE: Cost(
                        energy_j=0.01 * ms * part, latency_ms=ms * part, memory_bytes=3, load_energy_j=0.15, load_ms=15
                    ),
                    Place.CLOUD: Cost(energy_j=0.004, money=3e-6 + 1.5e-7 * ms * part, latency_ms=5 + ms * part),
                },
            )
            for part, accuracy in parts.items()
        ),
    )


def test_the_day_of_figure_13_is_as_accurate_as_can_be() -> None:
    """The scheduler is nearly as accurate as the oracle on the day of :mod:`benchmarks.catalog.day`.

    There are four models at 3 Hz, the server is away twice, and the budget is 45 % of the energy that the originals
    would take on the device. All requests are served, nearly all by originals.
    """
    day_s, rate_hz = 120.0, 3.0
    models = [_model("objects", 33), _model("objects_small", 8), _model("place", 7), _model("place_small", 1.8)]
    requests = [(i / rate_hz + 0.05 * at, model.model) for i in range(360) for at, model in enumerate(models)]
    trace = Trace(times_s=tuple(time_s for time_s, _ in requests), models=tuple(name for _, name in requests))
    originals = [model.variants[0].costs for model in models]
    budget = Budget(
        energy_j=0.45 * 360 * sum(costs[Place.DEVICE].energy_j for costs in originals) + 5 * 4 * 0.15,
        money=3 * 0.65 * 360 * sum(costs[Place.CLOUD].money for costs in originals),
        horizon_s=day_s,
    )

    def connected(time_s: float) -> bool:
        return not (0.25 <= time_s / day_s < 0.4 or 0.6 <= time_s / day_s < 0.8)

    robot = Scheduler([Demand(catalog=model, rate_hz=rate_hz) for model in models], budget, 100)
    outcome = simulate(robot, trace, connected)
    assert outcome.served == outcome.requests
    assert outcome.energy_j <= budget.energy_j and outcome.money <= budget.money
    assert outcome.accuracy >= 0.98 * most_accurate_day(models, budget, 100, trace, connected) >= 0.97
