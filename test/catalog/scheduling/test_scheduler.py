# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The scheduler's choices of variant and place, and their reasons, are worked out by hand with the paper's rule."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.catalog.requests import Trace
from benchmarks.catalog.simulation import Step, steps
from cacheinf_ros.catalog.scheduling.budgets import Budget
from cacheinf_ros.catalog.scheduling.decision import Decision, Demand, Preference, Why
from cacheinf_ros.catalog.scheduling.scheduler import Scheduler
from cacheinf_ros.catalog.variant import Catalog, Cost, Place, Variant
from cacheinf_ros.errors import CatalogError

LARGE = Variant(
    name="large",
    accuracy=0.9,
    costs={
        Place.DEVICE: Cost(energy_j=4.0, memory_bytes=80, load_energy_j=8.0),
        Place.CLOUD: Cost(energy_j=0.1, money=0.01),
    },
)
SMALL = Variant(
    name="small", accuracy=0.6, costs={Place.DEVICE: Cost(energy_j=1.0, memory_bytes=20, load_energy_j=2.0)}
)
DEVICE_ONLY = Variant(name="large", accuracy=0.9, costs={Place.DEVICE: LARGE.costs[Place.DEVICE]})


def catalog(*variants: Variant, model: str = "m") -> Catalog:
    return Catalog(model=model, variants=variants)


def scheduler(
    *catalogs: Catalog,
    energy_j: float = math.inf,
    money: float = math.inf,
    horizon_s: float = 100.0,
    cache_bytes: int = 100,
    preference: Preference = Preference.MCDNN,
) -> Scheduler:
    """Return a scheduler that expects each model to be asked once a second."""
    demands = [Demand(catalog=one, rate_hz=1.0) for one in catalogs]
    budget = Budget(energy_j=energy_j, money=money, horizon_s=horizon_s)
    return Scheduler(demands, budget, cache_bytes, preference=preference)


def serve(of: Scheduler, time_s: float, model: str = "m", *, connected: bool = True) -> Decision:
    decision = of.choose(model, time_s, connected=connected)
    of.spend(*decision.predicted)
    return decision


def chosen(decision: Decision) -> tuple[str | None, Place | None, Why]:
    return decision.variant and decision.variant.name, decision.place, decision.why


def test_the_most_accurate_that_fits_its_budget_is_loaded_and_stays() -> None:
    """500 J for 100 requests are 5 J each; two requests at once count as 7 in 5 s, which makes it 7 J."""
    lone = scheduler(catalog(DEVICE_ONLY, SMALL), energy_j=500)
    first, second = serve(lone, 0.0), serve(lone, 1.0)
    assert chosen(first) == ("large", Place.DEVICE, Why.FITS)
    assert first.load is not None and first.load.evicts == () and first.predicted == (12.0, 0.0)
    assert chosen(second) == ("large", Place.DEVICE, Why.IN_CACHE)
    assert second.load is None and second.predicted == (4.0, 0.0)
    assert lone.account.energy_j == 484.0 and lone.used_bytes == 80


@pytest.mark.parametrize("preference", Preference)
def test_a_request_that_is_decided_again_counts_once(preference: Preference) -> None:
    """The server fails in the second request, and the device answers."""
    known, other = catalog(LARGE, SMALL), catalog(SMALL, model="n")
    plain, again = (scheduler(known, other, energy_j=500, preference=preference) for _ in range(2))
    for each in (plain, again):
        serve(each, 0.0, "n", connected=False)
    serve(plain, 1.0, connected=False)
    again.choose("m", 1.0, connected=True)
    found = again.reconsider("m", 1.0, connected=False)
    assert found.place is Place.DEVICE
    for name in ("m", "n"):
        one, two = plain._models[name], again._models[name]
        assert (one.requests, one.begun, one.frequency.count) == (two.requests, two.begun, two.frequency.count)
    for name in ("_seen", "_turns", "_connected"):
        assert vars(plain._rule).get(name) == vars(again._rule).get(name)


def test_a_smaller_variant_serves_where_the_larger_does_not_fit_the_budget() -> None:
    """The budget is 200 J for 100 requests."""
    assert chosen(serve(scheduler(catalog(LARGE, SMALL), energy_j=200, money=0.0), 0.0))[:2] == ("small", Place.DEVICE)


def test_where_nothing_fits_the_cheapest_serves_until_nothing_is_left() -> None:
    """10 J for 100 requests are spent on loading, 2 J, and on 8 requests of 1 J."""
    poor = scheduler(catalog(DEVICE_ONLY, SMALL), energy_j=10)
    decisions = [serve(poor, float(t)) for t in range(12)]
    assert chosen(decisions[0]) == ("small", Place.DEVICE, Why.CHEAPEST)
    assert [d.why for d in decisions[1:8]] == [Why.IN_CACHE] * 7
    assert [chosen(d) for d in decisions[8:]] == [(None, None, Why.USED_UP)] * 4
    assert poor.account.energy_j == 0.0


def test_the_cloud_is_paid_for_while_one_request_is() -> None:
    """One takes 0.01 dollars; where it is free, nothing is enough."""
    free = Variant(name="large", accuracy=0.9, costs={Place.CLOUD: Cost(energy_j=0.1)})
    assert scheduler(catalog(LARGE), money=0.01).pays_for_cloud("m")
    assert not scheduler(catalog(LARGE), money=0.009).pays_for_cloud("m")
    assert scheduler(catalog(free), money=0.0).pays_for_cloud("m")
    assert not scheduler(catalog(DEVICE_ONLY)).pays_for_cloud("m")


def test_of_equally_accurate_places_the_one_that_takes_less_of_what_is_left_serves() -> None:
    """The choice is between 4 of 10000 J, and 0.1 of 10000 J with 0.01 of 100 or of 10 dollars."""
    assert serve(scheduler(catalog(LARGE), energy_j=1e4, money=100.0), 0.0).place is Place.CLOUD
    assert serve(scheduler(catalog(LARGE), energy_j=1e4, money=10.0), 0.0).place is Place.DEVICE


@pytest.mark.parametrize(("money", "place"), [(10.0, Place.CLOUD), (0.4, None)])
def test_a_model_leaves_the_device_where_the_cloud_takes_less_of_what_is_left(
    money: float, place: Place | None
) -> None:
    """The model was loaded while offline; 50 more requests are 200 of 1000 J, or 0.5 of 10 dollars or of 0.4."""
    robot = scheduler(catalog(LARGE), energy_j=1e3, money=money)
    assert serve(robot, 0.0, connected=False).place is Place.DEVICE
    for time_s in range(1, 50):
        serve(robot, float(time_s), connected=False)
    robot.account.energy_j = 1e3
    load = robot.update("m", 50.0)
    assert (load and load.option.place) is place


@pytest.mark.parametrize(("left_s", "loaded"), [(20.0, (SMALL, Why.CHEAPEST)), (4.0, None)])
def test_nothing_is_loaded_that_saves_less_than_loading_takes(
    left_s: float, loaded: tuple[Variant, Why] | None
) -> None:
    """0.8 J a second are too little for either variant; the small one saves 0.4 J a request but takes 2 J to load."""
    cost = Cost(energy_j=1.4, memory_bytes=20, load_energy_j=2.0)
    robot = scheduler(catalog(SMALL, Variant(name="other", accuracy=0.7, costs={Place.DEVICE: cost})), energy_j=200)
    assert chosen(serve(robot, 0.0))[0] == "other"
    for time_s in range(1, 80):
        serve(robot, float(time_s))
    robot.account.energy_j = 0.8 * left_s
    load = robot.update("m", 100.0 - left_s)
    assert (load and (load.option.variant, load.why)) == loaded


def test_without_a_connection_the_device_serves_and_afterwards_the_cloud_again() -> None:
    robot = scheduler(catalog(LARGE, SMALL), energy_j=200, money=10.0)
    assert serve(robot, 0.0).place is Place.CLOUD
    assert chosen(serve(robot, 1.0, connected=False)) == ("small", Place.DEVICE, Why.FITS)
    assert robot.update("m", 1.0, connected=False) is None
    back = serve(robot, 2.0)
    assert chosen(back) == ("small", Place.DEVICE, Why.IN_CACHE)
    load = robot.update("m", 2.0)
    assert load is not None and load.option.place is Place.CLOUD
    robot.apply(load, 2.0)
    assert chosen(serve(robot, 3.0)) == ("large", Place.CLOUD, Why.IN_CACHE)
    assert robot.used_bytes == 0


def test_a_model_that_only_the_cloud_has_is_refused_without_a_connection() -> None:
    only = Variant(name="v", accuracy=0.9, costs={Place.CLOUD: Cost(money=0.01)})
    assert serve(scheduler(catalog(only)), 0.0, connected=False).why is Why.UNREACHABLE


def test_a_larger_variant_is_loaded_in_the_background_when_damping_allows() -> None:
    """Only the small variant fitted at first; now 5 J a request would be enough for the large one.

    Loading takes 8 J: two seconds after the last time, with 98 s to go, 8 · 98 / 2 of 490 J are set aside, which leaves
    only 1 J; after 40 s it is 8 · 60 / 40 = 12 J.
    """
    robot = scheduler(catalog(DEVICE_ONLY, SMALL), energy_j=200)
    assert serve(robot, 0.0).variant is SMALL
    robot.account.energy_j = 490.0
    for time_s in (1.0, 2.0):
        assert serve(robot, time_s).variant is SMALL
    assert robot.update("m", 2.0) is None
    for time_s in range(3, 41):
        serve(robot, float(time_s))
    load = robot.update("m", 40.0)
    assert load is not None and load.option.variant is DEVICE_ONLY and load.why is Why.FITS


def test_a_proposal_changes_nothing() -> None:
    robot = scheduler(catalog(DEVICE_ONLY, SMALL), energy_j=200)
    serve(robot, 0.0)
    robot.account.energy_j = 1e4
    assert robot.update("m", 50.0) == robot.update("m", 50.0)
    assert serve(robot, 51.0).variant is SMALL


def test_a_variant_that_costs_too_much_gives_way() -> None:
    """The variant was chosen at 5 J a request, but now there is 1.5 J for each."""
    robot = scheduler(catalog(DEVICE_ONLY, SMALL), energy_j=600)
    assert serve(robot, 0.0).variant is DEVICE_ONLY
    for time_s in range(1, 50):
        serve(robot, float(time_s))
    robot.account.energy_j = 90.0
    assert serve(robot, 50.0).variant is DEVICE_ONLY  # as published: what is in the cache serves
    load = robot.update("m", 50.0)
    assert load is not None and load.option.variant is SMALL and load.evicts == ()


def test_memory_is_taken_from_the_least_recently_used() -> None:
    models = [catalog(DEVICE_ONLY, model=name) for name in "ab"]
    robot = scheduler(*models)
    serve(robot, 0.0, "a")
    load = serve(robot, 1.0, "b").load
    assert load is not None and load.evicts == ("a",) and robot.used_bytes == 80
    assert serve(robot, 2.0, "a").why is Why.FITS


@pytest.mark.parametrize(
    ("preference", "energy_j", "name"),
    [
        (Preference.MCDNN, 200, "there"),
        (Preference.SERVER_FIRST, 200, "there"),
        (Preference.DEVICE_FIRST, 200, "here"),
        (Preference.MCDNN, 101, "here"),
        (Preference.SERVER_FIRST, 101, "there"),
        (Preference.DEVICE_FIRST, 101, "here"),
    ],
)
def test_preferences_of_place(preference: Preference, energy_j: float, name: str) -> None:
    """With the first request there are 1.2 Hz for 100 s, or 1.67 J or 0.84 J a request; sending takes 1.5 J."""
    both = catalog(
        Variant(name="there", accuracy=0.9, costs={Place.CLOUD: Cost(energy_j=1.5)}),
        Variant(name="here", accuracy=0.8, costs={Place.DEVICE: Cost(energy_j=0.5)}),
    )
    assert chosen(serve(scheduler(both, energy_j=energy_j, preference=preference), 0.0))[0] == name


def test_after_the_horizon_what_is_left_may_be_used() -> None:
    robot = scheduler(catalog(DEVICE_ONLY, SMALL), energy_j=13, horizon_s=10.0)
    assert serve(robot, 1000.0).variant is DEVICE_ONLY


def test_mistakes_are_named() -> None:
    with pytest.raises(CatalogError, match="'m' has two catalogs"):
        scheduler(catalog(SMALL), catalog(LARGE))
    with pytest.raises(CatalogError, match="fits 10 bytes"):
        scheduler(catalog(SMALL), cache_bytes=10)
    with pytest.raises(CatalogError, match="'x' has no catalog; those that have are m"):
        scheduler(catalog(SMALL)).choose("x", 0.0)


costs = st.builds(
    Cost,
    energy_j=st.floats(0, 5),
    money=st.just(0.0),
    memory_bytes=st.integers(1, 90),
    load_energy_j=st.floats(0, 20),
)
cloud_costs = st.builds(Cost, energy_j=st.floats(0, 1), money=st.floats(0.001, 1), load_money=st.floats(0, 0.5))


@st.composite
def variants(draw: st.DrawFn) -> Variant:
    places = {Place.DEVICE: draw(costs), Place.CLOUD: draw(cloud_costs)}
    whole = places[Place.CLOUD]
    places[Place.SPLIT] = Cost(
        energy_j=draw(st.floats(0, 3)), money=whole.money / 2, memory_bytes=draw(st.integers(1, 90))
    )
    kept = draw(st.sets(st.sampled_from((Place.DEVICE, Place.SPLIT)), min_size=1))
    return Variant(
        name=str(draw(st.uuids())),
        accuracy=draw(st.sampled_from((0.3, 0.5, 0.7, 0.9))),
        costs={place: cost for place, cost in places.items() if place in kept or place is Place.CLOUD},
    )


@st.composite
def days(draw: st.DrawFn) -> tuple[list[Catalog], Trace, dict[float, bool]]:
    names = ("a", "b", "c", "d")[: draw(st.integers(1, 4))]
    catalogs = [catalog(*draw(st.lists(variants(), min_size=1, max_size=4)), model=name) for name in names]
    times = tuple(sorted(draw(st.lists(st.floats(0, 120), min_size=1, max_size=60))))
    asked = tuple(draw(st.sampled_from(names)) for _ in times)
    return catalogs, Trace(times_s=times, models=asked), {time: draw(st.booleans()) for time in times}


def lived(day: tuple[list[Catalog], Trace, dict[float, bool]], budget: Budget, preference: Preference) -> list[Step]:
    catalogs, trace, connected = day
    demands = [Demand(catalog=one, rate_hz=0.5) for one in catalogs]
    return list(steps(Scheduler(demands, budget, 90, preference=preference), trace, connected.__getitem__))


@given(day=days(), energy_j=st.floats(0, 200), money=st.floats(0, 20), preference=st.sampled_from(Preference))
def test_no_budget_is_exceeded_and_no_memory(
    day: tuple[list[Catalog], Trace, dict[float, bool]], energy_j: float, money: float, preference: Preference
) -> None:
    """Memory is counted independently from what is loaded and evicted."""
    spent_j = spent = 0.0
    loaded: dict[str, int] = {}
    for step in lived(day, Budget(energy_j=energy_j, money=money, horizon_s=100.0), preference):
        spent_j, spent = spent_j + step.energy_j, spent + step.money
        assert spent_j <= energy_j + 1e-6 and spent <= money + 1e-6
        for load in (step.decision.load, step.update):
            if load is not None:
                for model in load.evicts:
                    del loaded[model]
                loaded[load.model] = 0 if load.option.place is Place.CLOUD else load.option.cost.memory_bytes
                assert sum(loaded.values()) <= 90
        decision = step.decision
        assert decision.place is not None or decision.why in (Why.USED_UP, Why.UNREACHABLE)
        if decision.place is not None:
            assert decision.place is Place.DEVICE or day[2][step.time_s]
            assert decision.model in loaded


@given(day=days(), energy_j=st.floats(1, 200), money=st.floats(0.1, 20), excess=st.floats(1, 3))
def test_what_takes_more_than_predicted_exceeds_the_budget_by_one_request_at_most(
    day: tuple[list[Catalog], Trace, dict[float, bool]], energy_j: float, money: float, excess: float
) -> None:
    catalogs, trace, connected = day
    demands = [Demand(catalog=one, rate_hz=0.5) for one in catalogs]
    robot = Scheduler(demands, Budget(energy_j=energy_j, money=money, horizon_s=100.0), 90)
    largest_j = largest = 0.0
    for time_s, model in trace:
        before = robot.account.energy_j, robot.account.money
        decision = robot.choose(model, time_s, connected=connected[time_s])
        robot.spend(*(excess * value for value in decision.predicted))
        largest_j = max(largest_j, before[0] - robot.account.energy_j)
        largest = max(largest, before[1] - robot.account.money)
        assert robot.account.energy_j >= -largest_j and robot.account.money >= -largest


@given(day=days())
def test_equal_days_are_equal(day: tuple[list[Catalog], Trace, dict[float, bool]]) -> None:
    budget = Budget(energy_j=50.0, money=2.0, horizon_s=100.0)
    assert lived(day, budget, Preference.ACCURACY) == lived(day, budget, Preference.ACCURACY)


@given(day=days())
def test_without_a_budget_the_most_accurate_serves(day: tuple[list[Catalog], Trace, dict[float, bool]]) -> None:
    best = {one.model: max(variant.accuracy for variant in one.variants) for one in day[0]}
    trace = day[1]
    robot = Scheduler([Demand(catalog=one) for one in day[0]], Budget(horizon_s=100.0), 90)
    for step in steps(robot, trace):
        assert step.decision.variant is not None
        assert step.decision.variant.accuracy == best[step.decision.model]


def slow(name: str, accuracy: float, latency_ms: float) -> Variant:
    return Variant(
        name=name, accuracy=accuracy, costs={Place.DEVICE: Cost(energy_j=1.0, latency_ms=latency_ms, memory_bytes=10)}
    )


@pytest.mark.parametrize(("rate_hz", "name"), [(1.0, "large"), (2.0, "small"), (2.5, "small"), (4.0, "tiny")])
def test_a_request_is_answered_before_the_next_one(rate_hz: float, name: str) -> None:
    """Equation 5: (5 + 1) / (5 / rate) is 1.2 times the rate, which leaves 833, 417, 333 and 208 ms; 200 ms fit all."""
    variants = slow("large", 0.9, 800.0), slow("small", 0.8, 330.0), slow("tiny", 0.5, 200.0)
    robot = Scheduler([Demand(catalog=catalog(*variants), rate_hz=rate_hz)], Budget(horizon_s=100.0), 100)
    assert chosen(serve(robot, 0.0)) == (name, Place.DEVICE, Why.FITS)


def test_where_nothing_keeps_pace_the_fastest_serves() -> None:
    """At 10 Hz, 83 ms are left for each request."""
    variants = slow("large", 0.9, 800.0), slow("small", 0.8, 330.0)
    robot = Scheduler([Demand(catalog=catalog(*variants), rate_hz=10.0)], Budget(horizon_s=100.0), 100)
    assert chosen(serve(robot, 0.0)) == ("small", Place.DEVICE, Why.FITS)


def test_a_model_asked_more_often_than_expected_changes_to_a_faster_variant() -> None:
    """The first request makes it 1.2 Hz; 8 more in 0.8 s: (5 + 8) / (5 / 1.2 + 0.8) = 2.6 Hz, which leaves 382 ms."""
    robot = scheduler(catalog(slow("large", 0.9, 800.0), slow("small", 0.8, 330.0)))
    assert serve(robot, 0.0).variant == slow("large", 0.9, 800.0)
    for request in range(8):
        serve(robot, 0.1 * request)
    load = robot.update("m", 0.8)
    assert load is not None and load.option.variant.name == "small"


SLOW_AND_PAID = (
    Variant(
        name="m",
        accuracy=0.9,
        costs={
            Place.DEVICE: Cost(energy_j=1.0, latency_ms=800.0, memory_bytes=10),
            Place.CLOUD: Cost(money=0.01, latency_ms=50.0),
        },
    ),
)


@pytest.mark.parametrize(("money", "place"), [(0.0, Place.DEVICE), (0.005, Place.DEVICE), (100.0, Place.CLOUD)])
def test_what_is_faster_but_cannot_be_paid_keeps_nothing_from_serving(money: float, place: Place) -> None:
    """At 5 Hz 167 ms are left for each request; 500 requests are 500 J or 5 dollars."""
    demand = Demand(catalog=catalog(*SLOW_AND_PAID), rate_hz=5.0)
    robot = Scheduler([demand], Budget(energy_j=1000.0, money=money, horizon_s=100.0), 100)
    assert chosen(serve(robot, 0.0)) == ("m", place, Why.FITS)


def test_where_the_faster_cannot_be_paid_any_more_the_slower_goes_on() -> None:
    """0.025 dollars are enough for two requests, far from the needed 500; the third runs on the device."""
    demand = Demand(catalog=catalog(*SLOW_AND_PAID), rate_hz=5.0)
    robot = Scheduler([demand], Budget(energy_j=1000.0, money=0.025, horizon_s=100.0), 100)
    assert [serve(robot, 0.2 * n).place for n in range(3)] == [Place.CLOUD, Place.CLOUD, Place.DEVICE]


def test_a_model_that_is_served_less_often_than_demanded_must_still_keep_pace() -> None:
    """The model is demanded at 2 Hz but served at 1 Hz, for which 800 ms would do; the demand leaves only 500 ms.

    After 20 requests (5 + 20) / (2.5 + 20) = 1.1 Hz would leave 900 ms.
    """
    both = catalog(slow("large", 0.9, 800.0), slow("small", 0.8, 330.0))
    robot = Scheduler([Demand(catalog=both, rate_hz=2.0)], Budget(horizon_s=100.0), 100)
    for request in range(20):
        assert chosen(serve(robot, float(request)))[0] == "small"
    assert robot.update("m", 20.0) is None
    robot.demand([Demand(catalog=both, rate_hz=1.0)])
    load = robot.update("m", 20.0)
    assert load is not None and load.option.variant.name == "large"


def test_on_a_miss_accuracy_is_bounded_by_what_loads_fast_enough() -> None:
    """Algorithm 1, lines 37 to 40: the first request makes it 1.2 Hz, which leaves 833 ms.

    All variants run in 100 ms, but loading takes 2000, 700 or 10 ms besides. After the hit that follows, loading goes
    on in the background (line 4).
    """
    loading = {"large": (0.9, 2000.0), "middle": (0.8, 700.0), "small": (0.5, 10.0)}
    variants = (
        Variant(
            name=name,
            accuracy=accuracy,
            costs={Place.DEVICE: Cost(energy_j=1.0, latency_ms=100.0, memory_bytes=10, load_ms=load_ms)},
        )
        for name, (accuracy, load_ms) in loading.items()
    )
    robot = scheduler(catalog(*variants))
    assert chosen(serve(robot, 0.0)) == ("middle", Place.DEVICE, Why.FITS)
    assert chosen(serve(robot, 1.0)) == ("middle", Place.DEVICE, Why.IN_CACHE)
    load = robot.update("m", 1.0)
    assert load is not None and load.option.variant.name == "large"


def test_where_nothing_loads_fast_enough_what_is_ready_first_serves() -> None:
    """1000 + 10 ms are less than 900 + 400 ms; the cloud's variant needs no loading, but cannot be reached."""
    variants = (
        Variant(name="quick", accuracy=0.9, costs={Place.DEVICE: Cost(latency_ms=900.0, load_ms=400.0)}),
        Variant(name="light", accuracy=0.5, costs={Place.DEVICE: Cost(latency_ms=1000.0, load_ms=10.0)}),
        Variant(name="away", accuracy=0.9, costs={Place.CLOUD: Cost(latency_ms=10.0)}),
    )
    assert chosen(serve(scheduler(catalog(*variants)), 0.0, connected=False))[0] == "light"


def test_a_plan_spends_what_requests_of_their_own_budgets_leave() -> None:
    """Plans may spend what other requests leave of their equal shares.

    Two models at 1 Hz for 100 s have 260 J. One asks for 2 J with 0.9 or 1 J with 0.6, the other takes 0.5 J: by equal
    shares of 1.3 J the first has to take 0.6, although 260 J are enough for 100 * 2 + 100 * 0.5 J.
    """
    dear = Variant(name="dear", accuracy=0.9, costs={Place.DEVICE: Cost(energy_j=2.0, memory_bytes=10)})
    cheap = Variant(name="cheap", accuracy=0.6, costs={Place.DEVICE: Cost(energy_j=1.0, memory_bytes=5)})
    light = Variant(name="light", accuracy=0.8, costs={Place.DEVICE: Cost(energy_j=0.5, memory_bytes=5)})
    models = catalog(dear, cheap), catalog(light, model="n")
    for preference, name in ((Preference.MCDNN, "cheap"), (Preference.ACCURACY, "dear")):
        robot = scheduler(*models, energy_j=260.0, preference=preference)
        for time_s in range(5):
            serve(robot, float(time_s)), serve(robot, time_s + 0.5, "n")
            if (load := robot.update("m", time_s + 0.5)) is not None:
                robot.apply(load, time_s + 0.5)
        assert chosen(serve(robot, 5.0))[0] == name


def test_a_plan_saves_for_the_time_without_a_connection() -> None:
    """Of 100 requests 50 are made offline and take 2 J; after each reconnection one more is served from the cache.

    That is 110 J of 140; with a connection the variant that takes 3 J would be more accurate than the cloud.
    """
    both = {Place.DEVICE: Cost(energy_j=2.0, memory_bytes=10), Place.CLOUD: Cost(money=0.01)}
    better = {Place.DEVICE: Cost(energy_j=3.0, memory_bytes=10)}
    robot = scheduler(
        catalog(Variant(name="v", accuracy=0.8, costs=both), Variant(name="better", accuracy=0.9, costs=better)),
        energy_j=140.0,
        preference=Preference.ACCURACY,
    )
    served = 0
    for time_s in range(100):
        connected = time_s // 10 % 2 == 0
        served += serve(robot, float(time_s), connected=connected).place is not None
        if (load := robot.update("m", float(time_s), connected=connected)) is not None:
            robot.apply(load, float(time_s))
    assert served >= 97  # that the connection does not come back is not known
    assert robot.account.energy_j < 15.0  # what need not be saved is used
