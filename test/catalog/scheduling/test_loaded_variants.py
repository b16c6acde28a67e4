# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Tests of the device's memory for variants."""

from __future__ import annotations

import pytest

from cacheinf_ros.catalog.scheduling.decision import Option, options_of
from cacheinf_ros.catalog.scheduling.loaded_variants import LoadedVariants, SharedPart
from cacheinf_ros.catalog.variant import Catalog, Cost, Place, Variant
from cacheinf_ros.errors import CatalogError


def option(size: int, place: Place = Place.DEVICE) -> Option:
    cost = Cost(memory_bytes=size)
    return Option(variant=Variant(name=str(size), accuracy=0.5), place=place, cost=cost, device_share=1.0)


def put(residents: LoadedVariants, model: str, chosen: Option, now_s: float) -> None:
    residents.put(model, chosen, residents.in_the_way(model, chosen), now_s)


def test_the_least_recently_used_go_until_it_fits() -> None:
    residents = LoadedVariants(100)
    for time_s, (model, size) in enumerate([("a", 40), ("b", 30), ("c", 30)]):
        put(residents, model, option(size), time_s)
    residents.touch("a")
    assert residents.in_the_way("d", option(20)) == ("b",)
    assert residents.in_the_way("d", option(50)) == ("b", "c")
    assert residents.in_the_way("d", option(50), ("b",)) == ("c", "a")
    put(residents, "d", option(50), 3.0)
    assert residents.used == 90 and residents.get("b") is None and residents.get("a") is not None


def test_a_model_has_one_variant() -> None:
    residents = LoadedVariants(100)
    put(residents, "a", option(60), 0.0)
    put(residents, "b", option(40), 1.0)
    assert residents.in_the_way("a", option(60)) == ()
    put(residents, "a", option(50), 2.0)
    assert residents.used == 90
    resident = residents.get("a")
    assert resident is not None and resident.loaded_s == 2.0


def test_the_cloud_takes_no_memory_and_nothing_there_is_evicted() -> None:
    residents = LoadedVariants(100)
    put(residents, "a", option(1000, Place.CLOUD), 0.0)
    put(residents, "b", option(60, Place.SPLIT), 1.0)
    assert residents.used == 60
    assert residents.in_the_way("c", option(100)) == ("b",)


def test_what_is_shared_counts_once() -> None:
    """Three variants of 40 bytes, of which 30 are shared, take 60.

    One less saves 10 as long as the others still share; to make room for 60 more, two must go.
    """
    residents = LoadedVariants(100)
    for time_s, model in enumerate("abc"):
        residents.share([SharedPart(variants=dict.fromkeys("abc"[: time_s + 1], "40"), size=30)])
        put(residents, model, option(40), time_s)
    assert residents.used == 60
    assert residents.in_the_way("d", option(40)) == ()
    assert residents.in_the_way("d", option(60)) == ("a", "b")
    put(residents, "b", option(20), 3.0)
    assert residents.used == 40 + 10 + 20


def test_what_is_too_large_is_refused() -> None:
    with pytest.raises(CatalogError, match="takes 101 bytes"):
        LoadedVariants(100).in_the_way("a", option(101))


def test_how_a_split_variant_is_divided_follows_from_what_it_costs() -> None:
    """The cloud is paid for 0.2 of 0.8, so three quarters are done on the device; without pay it is 3 of 4 J."""

    def shares(**costs: Cost) -> dict[Place, float]:
        by_place = {Place(name): cost for name, cost in costs.items()}
        catalog = Catalog(model="m", variants=(Variant(name="v", accuracy=0.5, costs=by_place),))
        return {option.place: option.device_share for option in options_of(catalog)}

    paid = shares(device=Cost(energy_j=4), split=Cost(energy_j=1, money=0.2), cloud=Cost(money=0.8))
    assert paid == pytest.approx({Place.DEVICE: 1.0, Place.SPLIT: 0.75, Place.CLOUD: 0.0})
    assert shares(device=Cost(energy_j=4), split=Cost(energy_j=3))[Place.SPLIT] == pytest.approx(0.75)
    with pytest.raises(CatalogError, match="can be split"):
        shares(split=Cost(energy_j=3))
    with pytest.raises(CatalogError, match="no variant has a place"):
        shares()
