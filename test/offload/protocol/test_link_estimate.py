# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The link estimate notices a collapse at once, and does not trust a peak."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cacheinf_ros.offload.protocol.link_estimate import LinkEstimate


def took_ms(size: int, mbit_s: float, delay_ms: float) -> float:
    return size / (mbit_s * 125) + delay_ms


@given(mbit_s=st.floats(0.1, 1000), delay_ms=st.floats(0, 20))
def test_a_steady_link_is_found(mbit_s: float, delay_ms: float) -> None:
    estimate = LinkEstimate()
    for _ in range(200):
        estimate.observe_delay(delay_ms)
    for _ in range(200):
        estimate.observe(50_000, took_ms(50_000, mbit_s, delay_ms))
    assert estimate.mbit_s == pytest.approx(mbit_s, rel=0.2)


def test_two_bad_messages_are_enough_and_two_good_ones_are_not() -> None:
    estimate = LinkEstimate(mbit_s=100.0, delay_ms=1.0)
    for _ in range(2):
        estimate.observe(100_000, took_ms(100_000, 5.0, 1.0))
    assert estimate.mbit_s < 8
    for _ in range(2):
        estimate.observe(100_000, took_ms(100_000, 100.0, 1.0))
    assert estimate.mbit_s < 16
    for _ in range(40):
        estimate.observe(100_000, took_ms(100_000, 100.0, 1.0))
    assert estimate.mbit_s > 90


def test_one_hiccup_is_not_the_end() -> None:
    estimate = LinkEstimate(mbit_s=50.0, delay_ms=1.0)
    estimate.observe(20_000, 1000.0)
    assert estimate.mbit_s > 5
    estimate.observe(20_000, 1000.0)
    assert estimate.mbit_s < 1


def test_two_hiccups_with_a_working_link_between_them_are_not_the_end_either() -> None:
    estimate = LinkEstimate(mbit_s=50.0, delay_ms=1.0)
    estimate.observe(20_000, 1000.0)
    once = estimate.mbit_s
    estimate.observe(1000, 2.0)
    estimate.observe(20_000, 1000.0)
    assert estimate.mbit_s > once / 10
    estimate.observe(1000, 500.0)  # a small one that takes long does not excuse anything
    estimate.observe(20_000, 1000.0)
    assert estimate.mbit_s < 0.5


def test_what_does_not_come_counts_too() -> None:
    estimate = LinkEstimate(mbit_s=100.0, delay_ms=1.0)
    estimate.nothing_came(100_000, 2.0)
    assert estimate.mbit_s == 100.0
    estimate.nothing_came(100_000, 801.0)
    assert estimate.mbit_s == pytest.approx(1.0)


def test_hope_returns_slowly() -> None:
    estimate = LinkEstimate(mbit_s=100.0, delay_ms=1.0)
    estimate.nothing_came(100_000, 801.0)
    estimate.forget()
    assert 1.0 < estimate.mbit_s < 1.5
    for _ in range(60):
        estimate.forget()
    assert estimate.mbit_s == pytest.approx(100.0)


def test_small_messages_say_nothing_about_bandwidth() -> None:
    estimate = LinkEstimate(mbit_s=100.0, delay_ms=1.0)
    estimate.observe(200, 50.0)
    assert estimate.mbit_s == 100.0


def test_small_messages_prove_that_a_link_is_not_as_slow_as_believed() -> None:
    """2000 bytes in 4 ms are at least 4 Mbit/s."""
    estimate = LinkEstimate(mbit_s=0.5, delay_ms=1.0)
    estimate.observe(2000, 4.0)
    assert estimate.mbit_s < 1
    for _ in range(50):
        estimate.observe(2000, 4.0)
    assert estimate.mbit_s == pytest.approx(4.0, rel=0.01)


def test_what_small_messages_take_too_is_not_held_against_the_link() -> None:
    estimate = LinkEstimate(mbit_s=48.0, delay_ms=1.0)
    for _ in range(50):
        estimate.observe_delay(4.0)  # machines that wake up late: 3 ms beyond the shortest
        estimate.observe_delay(1.0)
        estimate.observe(6_000, 1.0 + 1.0 + 5.0)  # 1 ms for its bytes
    assert estimate.mbit_s > 40


@pytest.mark.parametrize("mbit_s", [0.5, 2.0])
def test_a_collapse_is_noticed_in_spite_of_it(mbit_s: float) -> None:
    estimate = LinkEstimate(mbit_s=48.0, delay_ms=1.0)
    for _ in range(50):
        estimate.observe_delay(5.0)
        estimate.observe_delay(1.0)
    for _ in range(3):
        estimate.observe(30_000, took_ms(30_000, mbit_s, 1.0))
    assert estimate.mbit_s < 1.5 * mbit_s


def test_a_fast_link_is_tried_although_nothing_pays_on_a_slow_one() -> None:
    """A robot that computes alone sends nothing: with a ceiling of the first guess it would never learn better."""
    estimate = LinkEstimate()
    assert not estimate.is_known
    for _ in range(20):
        estimate.forget()
    assert estimate.mbit_s > 300
    estimate.observe(200, 5.0)  # too small to say anything
    assert not estimate.is_known


@pytest.mark.parametrize("mbit_s", [2.0, 30.0])
def test_a_guess_that_was_too_high_does_not_come_back(mbit_s: float) -> None:
    estimate = LinkEstimate()
    for _ in range(20):
        estimate.forget()
    for _ in range(6):
        estimate.observe(100_000, took_ms(100_000, mbit_s, 2.0))
    assert estimate.mbit_s == pytest.approx(mbit_s, rel=0.5)  # some time is excused
    settled = estimate.mbit_s
    for _ in range(100):
        estimate.forget()
    assert settled <= estimate.mbit_s <= max(10.0, 1.5 * mbit_s)


@pytest.mark.parametrize("mbit_s", [20.0, 50.0, 200.0, 900.0])
def test_a_quiet_second_never_lowers_the_estimate(mbit_s: float) -> None:
    """What came down from a guess that was too high must not fall to the first guess."""
    estimate = LinkEstimate()
    for _ in range(20):
        estimate.forget()
    for _ in range(40):
        estimate.observe(100_000, took_ms(100_000, mbit_s, 2.0))
        before = estimate.mbit_s
        estimate.forget()
        assert estimate.mbit_s >= before
    assert estimate.mbit_s > mbit_s / 2
    estimate.nothing_came(100_000, 50.0)
    before = estimate.mbit_s
    estimate.forget()
    assert estimate.mbit_s >= before


def test_what_does_not_come_ends_the_guessing() -> None:
    estimate = LinkEstimate()
    estimate.nothing_came(100_000, 802.0)
    for _ in range(100):
        estimate.forget()
    assert estimate.mbit_s == pytest.approx(10.0)


def test_delays_take_no_longer_than_a_whole_round_trip() -> None:
    """Where every message is large and the link fast, a first guess that is too long would leave no time for bytes."""
    estimate = LinkEstimate()
    for _ in range(100):
        estimate.observe_round_trip(2.0)
        estimate.observe(20_000, 2.0 - estimate.delay_ms)  # 100 Mbit/s: 1.6 ms and 0.2 ms each way
    assert estimate.delay_ms == 0.5 and 100 < estimate.mbit_s < 200  # half of the 2 ms are taken for delay
