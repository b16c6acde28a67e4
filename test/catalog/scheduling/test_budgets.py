# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Lines 20 to 31 of MCDNN's algorithm 1, with numbers worked out by hand."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cacheinf_ros.catalog.scheduling.budgets import PRIOR, Account, Budget, Frequency, per_request, split_between
from cacheinf_ros.catalog.variant import Cost
from cacheinf_ros.errors import ConfigError


def test_a_lone_model_may_take_an_equal_part_for_each_request() -> None:
    """3600 J for 1800 s at 0.5 Hz are enough for 900 requests of 4 J."""
    assert per_request(3600, time_s=1800, frequency_hz=0.5, squares_hz2=0.25) == pytest.approx(4.0)


def test_more_frequent_requests_may_take_more() -> None:
    """1 and 3 Hz: Σ f² = 10. Of 100 J in 10 s, (100 · 1) / (10 · 10) = 1 J and 3 J; 10 · 1 + 30 · 3 = 100 J."""
    slow, fast = (per_request(100, time_s=10, frequency_hz=hz, squares_hz2=10) for hz in (1, 3))
    assert (slow, fast) == pytest.approx((1.0, 3.0))


def test_loading_is_damped() -> None:
    """10 J to load, 50 s after the last time, 200 s to go: 4 more loads, 40 J; (100 − 40) · 2 / (200 · 4) = 0.15 J."""
    damped = per_request(100, time_s=200, frequency_hz=2, squares_hz2=4, load=10, since_load_s=50)
    assert damped == pytest.approx(0.15)


def test_what_is_loaded_often_may_take_nothing() -> None:
    """10 s after the last time it would be 200 J of 100: (100 − 200) · 2 / (200 · 4) = −0.25 J."""
    often = per_request(100, time_s=200, frequency_hz=2, squares_hz2=4, load=10, since_load_s=10)
    assert often == pytest.approx(-0.25)
    assert per_request(100, time_s=200, frequency_hz=2, squares_hz2=4, load=10, since_load_s=0) == -math.inf


@pytest.mark.parametrize(("load", "since_s"), [(10.0, math.inf), (0.0, 0.0), (0.0, 5.0)])
def test_nothing_is_damped_on_a_miss_or_where_nothing_is_loaded(load: float, since_s: float) -> None:
    allowed = per_request(100, time_s=200, frequency_hz=2, squares_hz2=4, load=load, since_load_s=since_s)
    assert allowed == pytest.approx(0.25)


def test_a_split_request_may_take_a_part_of_both() -> None:
    """The device's part takes a quarter of the time: 0.25 · 2 J, and 0.75 · 0.8 dollars."""
    assert split_between(2.0, 0.8, 0.25) == pytest.approx((0.5, 0.6))
    assert split_between(math.inf, math.inf, 0.0) == (math.inf, math.inf)


@given(rates=st.lists(st.floats(0.01, 10), min_size=1, max_size=6), budget=st.floats(0, 1e5), time_s=st.floats(1, 1e5))
def test_all_requests_together_may_take_all(rates: list[float], budget: float, time_s: float) -> None:
    squares = sum(rate * rate for rate in rates)
    allowed = [per_request(budget, time_s=time_s, frequency_hz=rate, squares_hz2=squares) for rate in rates]
    assert sum(r * rate * time_s for r, rate in zip(allowed, rates, strict=True)) == pytest.approx(budget)


def test_frequency_is_measured_since_loading() -> None:
    """Believed 0.1 Hz counts as PRIOR requests in PRIOR / 0.1 s; with 20 more in 50 s: 25 / 100 Hz."""
    frequency = Frequency(believed_hz=0.1, since_s=1000.0)
    assert frequency.hz(1000.0) == pytest.approx(0.1)
    frequency.count = 20
    assert PRIOR == 5 and frequency.hz(1050.0) == pytest.approx(0.25)
    frequency.begin_anew(1050.0)
    assert frequency.count == 0 and frequency.hz(1050.0) == pytest.approx(0.25)
    assert frequency.hz(1080.0) == pytest.approx(5 / 50)


def test_an_account_covers_what_is_left_and_what_costs_nothing() -> None:
    account = Account(energy_j=10.0, money=0.0)
    assert account.covers(10.0, 0.0) and not account.covers(10.1, 0.0) and not account.covers(0.0, 1e-9)
    account.spend(11.0, 0.0)
    assert account.energy_j == -1.0 and account.covers(0.0, 0.0) and not account.covers(0.1, 0.0)


def test_the_resource_that_is_scarcer_counts() -> None:
    account = Account(energy_j=10.0, money=2.0)
    assert account.share(Cost(energy_j=1.0, money=1.0)) == pytest.approx(0.5)
    assert account.share(Cost(energy_j=8.0, money=1.0)) == pytest.approx(0.8)
    assert Account(energy_j=math.inf, money=0.0).share(Cost(energy_j=1.0)) == 0.0
    assert Account(energy_j=math.inf, money=0.0).share(Cost(money=1.0)) == math.inf


@pytest.mark.parametrize("bad", [{"energy_j": -1.0}, {"money": math.nan}, {"horizon_s": 0.0}, {"horizon_s": math.inf}])
def test_impossible_budgets_are_refused(bad: dict[str, float]) -> None:
    with pytest.raises(ConfigError, match="budget of"):
        Budget(**{"horizon_s": 1.0, **bad})
