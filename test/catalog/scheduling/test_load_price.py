# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""A busy server costs more, within bounds, and requests that can do without it are served elsewhere."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cacheinf_ros.catalog.scheduling import Budget, Demand, Preference, Scheduler, options_of, price_factor
from cacheinf_ros.catalog.scheduling.load_price import priced
from cacheinf_ros.catalog.variant import Catalog, Cost, Place, Variant

BOTH = Variant(
    name="both",
    accuracy=0.9,
    costs={
        Place.DEVICE: Cost(energy_j=4.0, memory_bytes=80),
        Place.SPLIT: Cost(energy_j=2.0, money=0.005, memory_bytes=80),
        Place.CLOUD: Cost(energy_j=1.0, money=0.01, load_money=0.02),
    },
)


@given(st.floats(0.0, 1.0), st.floats(0.0, 1.0), st.floats(1.0, 1000.0))
def test_prices_rise_with_the_load_up_to_a_bound(one: float, other: float, most: float) -> None:
    low, high = sorted((one, other))
    assert 1.0 <= price_factor(low, most) <= price_factor(high, most) <= most
    assert price_factor(1.0, most) == most and price_factor(0.0, most) == 1.0


def test_half_of_the_time_is_dear_twice() -> None:
    assert price_factor(0.5, 10.0) == pytest.approx(2.0)
    assert price_factor(0.95, 10.0) == 10.0


def test_only_the_servers_part_is_dearer() -> None:
    options = {option.place: option for option in options_of(Catalog(model="m", variants=(BOTH,)))}
    device, split, cloud = (
        priced(options[place], options[place].cost, 3.0) for place in (Place.DEVICE, Place.SPLIT, Place.CLOUD)
    )
    assert device == options[Place.DEVICE].cost
    assert (cloud.energy_j, cloud.money, cloud.load_money) == pytest.approx((3.0, 0.03, 0.06))
    assert split.money == pytest.approx(0.015)
    assert split.energy_j == pytest.approx(2.0 * (1 + 2.0 * (1 - options[Place.SPLIT].device_share)))


@pytest.mark.parametrize("preference", [Preference.ACCURACY, Preference.MCDNN])
def test_a_robot_leaves_a_busy_server_and_comes_back(preference: Preference) -> None:
    costs = {place: BOTH.costs[place] for place in (Place.DEVICE, Place.CLOUD)}
    catalog = Catalog(model="m", variants=(Variant(name="both", accuracy=0.9, costs=costs),))
    budget = Budget(energy_j=1000.0, money=1000.0, horizon_s=100.0)
    scheduler = Scheduler([Demand(catalog=catalog, rate_hz=1.0)], budget, 100, preference=preference)

    def place_at(time_s: float, busy: float) -> Place:
        scheduler.price(price_factor(busy, 10.0))
        scheduler.choose("m", time_s)
        load = scheduler.update("m", time_s)
        if load is not None:
            scheduler.apply(load, time_s)
        place = scheduler.choose("m", time_s).place
        assert place is not None
        return place

    assert place_at(1.0, 0.0) is Place.CLOUD
    assert place_at(2.0, 0.9) is Place.DEVICE
    assert place_at(3.0, 0.1) is Place.CLOUD
