# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Measured costs correct what the catalog says."""

from __future__ import annotations

import pytest

from cacheinf_ros.catalog.scheduling.budgets import Budget
from cacheinf_ros.catalog.scheduling.cost_correction import CostCorrection
from cacheinf_ros.catalog.scheduling.decision import Demand, options_of
from cacheinf_ros.catalog.scheduling.scheduler import Scheduler
from cacheinf_ros.catalog.variant import Catalog, Cost, Place, Variant


def variant(name: str, accuracy: float, energy_j: float) -> Variant:
    return Variant(name=name, accuracy=accuracy, costs={Place.DEVICE: Cost(energy_j=energy_j, load_energy_j=0.5)})


CATALOG = Catalog(model="one", variants=(variant("large", 0.9, 1.0), variant("small", 0.7, 0.2)))
LARGE, SMALL = options_of(CATALOG)


def test_at_first_the_catalog_is_believed() -> None:
    assert CostCorrection().cost("one", LARGE) is LARGE.cost


def test_executing_and_loading_are_told_apart() -> None:
    """The prediction counts as one observation: after one of 3 J instead of 1, (0.98 + 3) / 1.98 is believed."""
    correction = CostCorrection()
    correction.executed("one", LARGE, 3.0)
    assert correction.cost("one", LARGE).energy_j == pytest.approx(3.98 / 1.98)
    assert correction.cost("one", LARGE).load_energy_j == 0.5
    for _ in range(300):
        correction.executed("one", LARGE, 3.0)
        correction.loaded("one", LARGE, 0.25)
    assert correction.cost("one", LARGE).energy_j == pytest.approx(3.0, rel=0.01)
    assert correction.cost("one", LARGE).load_energy_j == pytest.approx(0.25, rel=0.01)


def test_the_first_request_may_take_a_hundred_times_as_long() -> None:
    """Kernels are compiled in it: with one more, (0.98 * (0.98 + 5) + 1) / (0.98 * 1.98 + 1) is believed, not 17."""
    correction = CostCorrection()
    correction.executed("one", LARGE, 100.0)
    assert correction.cost("one", LARGE).energy_j == pytest.approx(5.98 / 1.98)
    correction.executed("one", LARGE, 1.0)
    assert correction.cost("one", LARGE).energy_j == pytest.approx((0.98 * 5.98 + 1) / (0.98 * 1.98 + 1))
    for _ in range(300):
        correction.executed("one", LARGE, 30.0)
    assert correction.cost("one", LARGE).energy_j == pytest.approx(30.0, rel=0.01), "where it is so, it is learned"


def test_what_the_server_is_paid_is_learned() -> None:
    """The user's prices may be others than those that the catalog was built with."""
    costs = {Place.CLOUD: Cost(money=0.001, load_money=0.01), Place.SPLIT: Cost(money=0.0005)}
    split, whole = options_of(Catalog(model="one", variants=(Variant(name="large", accuracy=0.9, costs=costs),)))
    assert (whole.place, split.place) == (Place.CLOUD, Place.SPLIT)
    correction = CostCorrection()
    for _ in range(300):
        correction.paid("one", whole, 0.02)
    assert correction.cost("one", whole).money == pytest.approx(0.02, rel=0.01)
    assert correction.cost("one", whole).load_money == pytest.approx(0.2, rel=0.01)
    assert correction.cost("one", split).money == pytest.approx(0.01, rel=0.01), "or it would only seem cheaper"
    assert correction.cost("one", LARGE).money == 0.0


def test_what_one_variant_shows_holds_for_the_model_s_others_and_no_other_model() -> None:
    correction = CostCorrection()
    for _ in range(300):
        correction.executed("one", LARGE, 2.0)
    assert correction.cost("one", SMALL).energy_j == pytest.approx(0.4, rel=0.01)
    assert correction.cost("another", SMALL) is SMALL.cost


def test_what_costs_nothing_by_the_catalog_teaches_nothing() -> None:
    free = options_of(Catalog(model="one", variants=(variant("free", 0.5, 0.0),)))[0]
    correction = CostCorrection()
    correction.executed("one", free, 1.0)
    assert correction.cost("one", free).energy_j == 0


def lived(energy_j: float, dearer: float) -> tuple[Scheduler, list[str]]:
    """Serve 100 requests, one a second, that cost ``dearer`` times what the catalog says; returns who served."""
    robot = Scheduler([Demand(catalog=CATALOG, rate_hz=1.0)], Budget(energy_j=energy_j, horizon_s=100.0), 10**9)
    served = []
    for second in range(100):
        decision = robot.choose("one", float(second))
        assert decision.option is not None
        took_j = dearer * decision.option.cost.energy_j
        robot.spend(took_j + (decision.option.cost.load_energy_j if decision.load else 0.0), 0.0)
        robot.correction.executed("one", decision.option, took_j)
        served.append(decision.option.variant.name)
        update = robot.update("one", float(second))
        if update is not None:
            robot.apply(update, float(second))
            robot.spend(update.option.cost.load_energy_j, 0.0)
    return robot, served


@pytest.mark.parametrize(("dearer", "served_by"), [(1.0, "large"), (3.0, "small"), (0.3, "large")])
def test_a_budget_lasts_although_the_catalog_is_wrong(dearer: float, served_by: str) -> None:
    """120 J are enough for the large variant, unless it takes three times what the catalog says."""
    robot, served = lived(120.0, dearer)
    assert robot.account.energy_j >= 0
    assert max(set(served), key=served.count) == served_by


def test_what_is_cheaper_than_the_catalog_says_can_be_afforded() -> None:
    """With a cache a request takes a third, so 40 J are enough for 100 requests of the large variant."""
    _, served = lived(40.0, 1 / 3)
    assert served[0] == "small"
    assert served[-1] == "large"
