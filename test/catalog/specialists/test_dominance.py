# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Tests of n,p-dominance, worked out by hand, and of windows of results."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cacheinf_ros.catalog.specialists.dominance import PAIRS, ClassWindow, Pair, find_dominance


def test_the_most_specific_pair_comes_first() -> None:
    assert [(pair.n, pair.p) for pair in PAIRS] == [
        (7, 0.95), (7, 0.9), (7, 0.8), (7, 0.7), (7, 0.6),
        (14, 0.95), (14, 0.9), (14, 0.8), (14, 0.7), (14, 0.6),
        (21, 0.95), (21, 0.9), (21, 0.8), (21, 0.7), (21, 0.6),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("outside", "expected"),
    [
        (3, Pair(n=7, p=0.95)),  # 70 of 73: 0.959
        (7, Pair(n=7, p=0.9)),  # 70 of 77: 0.909
        (17, Pair(n=7, p=0.8)),  # 70 of 87: 0.805
        (46, Pair(n=7, p=0.6)),  # 70 of 116: 0.603; 14 classes would make up 0.95, but 7 are more specific
    ],
)
def test_shares_by_hand(outside: int, expected: Pair) -> None:
    """Seven classes have 10 results each; the other results are spread thinly over eight more."""
    counts = {c: 10 for c in range(7)} | {7 + i: outside // 8 + (i < outside % 8) for i in range(8)}
    found = find_dominance(counts, classes=100)
    assert found is not None and found.pair == expected
    assert found.classes == tuple(range(7))
    assert found.share == pytest.approx(70 / (70 + outside))


def test_fourteen_where_seven_are_too_few() -> None:
    """14 of 30 classes are equally frequent, so that seven make up only one half."""
    found = find_dominance(dict.fromkeys(range(14), 5), classes=30)
    assert found is not None and (found.pair, len(found.classes)) == (Pair(n=14, p=0.95), 14)


def test_all_classes_are_no_skew() -> None:
    counts = dict.fromkeys(range(5), 10)
    assert find_dominance(counts, classes=7) is None
    assert find_dominance(counts, classes=8) is not None
    assert find_dominance({}, classes=100) is None


def test_classes_come_in_the_order_of_their_frequency_and_unseen_ones_not_at_all() -> None:
    found = find_dominance({3: 1, 9: 5, 4: 5, 1: 0}, classes=100)
    assert found is not None
    assert found.classes == (4, 9, 3)
    assert found.shares == pytest.approx((5 / 11, 5 / 11, 1 / 11))


@given(counts=st.dictionaries(st.integers(0, 40), st.integers(0, 30)))
def test_what_is_found_holds_and_nothing_before_it_does(counts: dict[int, int]) -> None:
    total, largest = sum(counts.values()), sorted(counts.values(), reverse=True)
    holding = [p for p in PAIRS if total and p.n < 41 and sum(largest[: p.n]) >= p.p * total - 1e-6]
    found = find_dominance(counts, classes=41)
    assert (found.pair if found else None) == (holding[0] if holding else None)
    if found:
        assert found.share >= found.pair.p - 1e-6 and len(found.classes) <= found.pair.n


def test_a_window_forgets() -> None:
    window = ClassWindow(10.0)
    for second, class_id in enumerate([1, 1, 2, 3]):
        window.add(class_id, float(second))
    assert (len(window), window.span_s, window.share({1})) == (4, 3.0, 0.5)
    window.add(2, 11.0)  # those of seconds 0 and 1 are 10 s old or older
    assert +window.counts == Counter({2: 2, 3: 1})
    assert window.share({2, 7}) == pytest.approx(2 / 3)


def test_a_stream_that_begins_anew_is_counted_anew() -> None:
    window = ClassWindow(10.0)
    window.add(1, 100.0)
    window.add(2, 3.0)
    assert +window.counts == Counter({2: 1})
    assert ClassWindow(1.0).share({1}) == 1.0


@given(steps=st.lists(st.tuples(st.floats(0, 5), st.integers(0, 5)), max_size=60))
def test_a_window_counts_what_is_in_it(steps: list[tuple[float, int]]) -> None:
    window, seen, now = ClassWindow(7.0), [], 0.0
    for wait, class_id in steps:
        now += wait
        seen.append((now, class_id))
        window.add(class_id, now)
        assert +window.counts == Counter(c for t, c in seen if t > now - 7.0)
