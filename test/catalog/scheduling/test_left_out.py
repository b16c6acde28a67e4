# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""What cannot be loaded is left out for a while, and others serve in its place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cacheinf_ros.catalog.scheduling import planned_rule
from cacheinf_ros.catalog.scheduling.allocation import Shares, allocate
from cacheinf_ros.catalog.scheduling.budgets import Budget
from cacheinf_ros.catalog.scheduling.decision import Demand, Option, Preference, Why
from cacheinf_ros.catalog.scheduling.loaded_variants import SharedPart
from cacheinf_ros.catalog.scheduling.scheduler import Scheduler
from cacheinf_ros.catalog.variant import Catalog, Cost, Place, Variant


def variant(name: str, accuracy: float, *places: Place, memory_bytes: int = 40) -> Variant:
    cost = Cost(energy_j=1.0, memory_bytes=memory_bytes)
    return Variant(name=name, accuracy=accuracy, costs=dict.fromkeys(places, cost))


BIG, SMALL = variant("big", 0.9, Place.DEVICE), variant("small", 0.6, Place.DEVICE)


def robot(*variants: Variant, preference: Preference = Preference.ACCURACY, horizon_s: float = 1e4) -> Scheduler:
    demands = [Demand(catalog=Catalog(model=name, variants=variants or (BIG, SMALL))) for name in "mno"]
    return Scheduler(demands, Budget(horizon_s=horizon_s), 100, preference=preference)


@pytest.mark.parametrize("preference", [Preference.ACCURACY, Preference.MCDNN])
def test_another_variant_serves_until_it_is_time_to_try_again(preference: Preference) -> None:
    ours = robot(preference=preference)
    first = ours.choose("m", 1.0)
    assert first.option is not None and first.variant is BIG
    ours.failed("m", first.option, 61.0)
    assert ours.used_bytes == 0
    assert ours.choose("m", 2.0).variant is SMALL
    assert ours.choose("n", 2.0).variant is BIG  # it is only this model's
    assert ours.update("m", 60.9) is None
    load = ours.update("m", 61.0)
    assert load is not None and load.option.variant is BIG


def test_where_nothing_is_left_the_refusal_says_why() -> None:
    ours = robot(BIG)
    decision = ours.choose("m", 0.0)
    assert decision.option is not None
    ours.failed("m", decision.option, 60.0)
    assert ours.choose("m", 1.0).why is Why.LEFT_OUT
    assert ours.choose("m", 60.0).variant is BIG


def test_what_serves_stays_where_another_one_fails() -> None:
    ours = robot(variant("better", 0.9, Place.CLOUD), variant("good", 0.8, Place.CLOUD))
    good = ours.choose("m", 0.0, connected=True)
    assert good.option is not None and good.variant is not None and good.variant.name == "better"
    ours.failed("m", good.option, 60.0)
    assert ours.choose("m", 1.0).load is not None
    better = good.option
    ours.failed("m", better, 120.0)
    again = ours.choose("m", 2.0)
    assert again.why is Why.IN_CACHE and again.variant is not None and again.variant.name == "good"


places = st.sets(st.sampled_from((Place.DEVICE, Place.CLOUD)), min_size=1)


@given(
    which=st.lists(places, min_size=1, max_size=3),
    requests=st.lists(
        st.tuples(st.sampled_from("mn"), st.floats(0.0, 40.0), st.booleans(), st.booleans()), min_size=1, max_size=25
    ),
    preference=st.sampled_from((Preference.ACCURACY, Preference.MCDNN)),
)
def test_only_what_may_be_tried_is_chosen_and_nothing_is_refused_before(
    which: Sequence[set[Place]], requests: Sequence[tuple[str, float, bool, bool]], preference: Preference
) -> None:
    """Each request comes some seconds after the one before, with or without the cloud, and may fail to load."""
    variants = [variant(f"v{i}", 0.9 - i / 10, *sorted(each, key=str)) for i, each in enumerate(which)]
    ours = robot(*variants, preference=preference, horizon_s=100.0)
    back_s: dict[tuple[str, str, Place], float] = {}
    now_s = 0.0
    for model, pause_s, connected, fails in requests:
        now_s += pause_s
        possible = [
            (each.name, place)
            for each in variants
            for place in each.costs
            if (connected or place is Place.DEVICE) and back_s.get((model, each.name, place), now_s) <= now_s
        ]
        decision = ours.choose(model, now_s, connected=connected)
        tried: list[Option] = []
        if decision.option is None:
            assert not possible
        else:
            assert (decision.option.variant.name, decision.option.place) in possible
            tried.append(decision.option)
            load = ours.update(model, now_s, connected=connected)
            if load is not None:
                ours.apply(load, now_s)
                assert (load.option.variant.name, load.option.place) in possible
                tried.append(load.option)
        for option in tried if fails else ():
            ours.failed(model, option, now_s + 60.0)
            back_s[model, option.variant.name, option.place] = now_s + 60.0
        assert ours.used_bytes <= 100


def test_what_shares_less_than_before_makes_the_least_recently_used_go() -> None:
    """Three variants of 40 bytes fit into 100 while two of them share 30; apart they do not."""
    ours = robot(BIG)
    for time_s, model in enumerate("mn"):
        ours.choose(model, float(time_s))
    assert ours.share("n", [SharedPart(variants=dict.fromkeys("mn", "big"), size=30)]) == ()
    load = ours.choose("o", 2.0).load
    assert load is not None and load.evicts == () and ours.used_bytes == 90
    ours.choose("m", 3.0)
    assert ours.share("m", []) == ("n",)
    assert ours.used_bytes == 80 and ours.choose("m", 4.0).why is Why.IN_CACHE


def test_after_its_time_a_budget_is_planned_once_a_second_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    """Catalogs that are registered after the budget's time have next to none left."""
    planned: list[int] = []

    def counted(groups: Any, account: Any, cache_bytes: int) -> list[Shares]:
        planned.append(len(groups))
        return allocate(groups, account, cache_bytes)

    monkeypatch.setattr(planned_rule, "allocate", counted)
    ours = robot(horizon_s=1e-3)
    for number in range(100):
        ours.choose("m", 1.0 + number / 50)
        ours.update("m", 1.0 + number / 50)
    assert len(planned) <= 3
