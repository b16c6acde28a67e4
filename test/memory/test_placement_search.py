# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Tests of the exact search for a placement."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from records import meet, records_of

from cacheinf_ros.memory import Placement, TensorRecord, check, least_for_offsets
from cacheinf_ros.memory.placement_search import FOUND, GIVEN_UP, IMPOSSIBLE, ORDERS, Problem

FEW = 10**6  # steps, far more than these problems take


@st.composite
def small_problems(draw: st.DrawFn) -> list[TensorRecord]:
    count = draw(st.integers(1, 6))
    starts = [draw(st.integers(0, 5)) for _ in range(count)]
    return [TensorRecord(size=draw(st.integers(1, 4)), first=s, last=s + draw(st.integers(0, 3))) for s in starts]


def fits(records: list[TensorRecord], capacity: int, placed: tuple[int, ...] = ()) -> bool:
    """Tell whether the tensors fit, by trying every offset of every tensor."""
    if len(placed) == len(records):
        return True
    record = records[len(placed)]
    for offset in range(capacity - record.size + 1):
        free = all(
            not meet(record, other) or offset + record.size <= at or at + other.size <= offset
            for other, at in zip(records, placed, strict=False)
        )
        if free and fits(records, capacity, (*placed, offset)):
            return True
    return False


@settings(max_examples=150, deadline=None)
@given(records=small_problems(), order=st.integers(0, ORDERS - 1))
def test_it_finds_what_trying_everything_finds(records: list[TensorRecord], order: int) -> None:
    for capacity in range(least_for_offsets(records) - 1, least_for_offsets(records) + 3):
        verdict, offsets = Problem(records).search(capacity, order, FEW)
        assert verdict == (FOUND if fits(records, capacity) else IMPOSSIBLE)
        if verdict == FOUND:
            check(records, Placement(offsets=tuple(offsets.tolist()), size=capacity))


@settings(deadline=None)
@given(records=small_problems(), seed=st.integers(0, 99))
def test_the_order_decides_nothing_but_time(records: list[TensorRecord], seed: int) -> None:
    weights = np.random.default_rng(seed).random((3, len(records)))
    problem, capacity = Problem(records), least_for_offsets(records)
    found = {problem.search(capacity, order, FEW, some)[0] for order in range(ORDERS) for some in (None, weights)}
    assert len(found) == 1


def test_it_gives_up_when_told_to() -> None:
    records = records_of(*((1 + i % 7, i % 11, i % 11 + i % 5) for i in range(60)))
    assert Problem(records).search(least_for_offsets(records), 0, 3)[0] == GIVEN_UP
