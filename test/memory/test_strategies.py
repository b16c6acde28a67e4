# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Placements of tensors: right, and never below their bounds."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from records import meet, records_of

from cacheinf_ros.errors import PlanError
from cacheinf_ros.memory import (
    OFFSETS,
    SHARED_OBJECTS,
    Placement,
    TensorRecord,
    best_of_greedy,
    check,
    least_for_offsets,
    least_for_shared_objects,
)
from cacheinf_ros.memory.optimal import optimal
from cacheinf_ros.memory.records import positional_maxima

CHAIN = records_of((100, 0, 1), (80, 1, 2), (60, 2, 3))  # each alive with its neighbours


@st.composite
def tensors(draw: st.DrawFn) -> TensorRecord:
    first = draw(st.integers(0, 12))
    return TensorRecord(size=16 * draw(st.integers(1, 9)), first=first, last=first + draw(st.integers(0, 5)))


lists = st.lists(tensors(), max_size=14)


@pytest.mark.parametrize("name", SHARED_OBJECTS)
@given(records=lists)
def test_no_two_live_tensors_share_an_object(name: str, records: list[TensorRecord]) -> None:
    placement = SHARED_OBJECTS[name](records)
    check(records, placement)
    assert placement.size >= least_for_shared_objects(records)
    assert placement.objects is not None
    for i, one in enumerate(records):
        for j, other in enumerate(records[:i]):
            assert placement.objects[i] != placement.objects[j] or not meet(one, other)


@pytest.mark.parametrize("name", OFFSETS)
@given(records=lists)
def test_no_two_live_tensors_overlap(name: str, records: list[TensorRecord]) -> None:
    placement = OFFSETS[name](records)
    check(records, placement)
    assert placement.size >= least_for_offsets(records)
    if name != "naive":
        assert placement.size <= sum(record.size for record in records)


@settings(max_examples=40, deadline=None)
@given(records=lists)
def test_nothing_beats_the_optimum(records: list[TensorRecord]) -> None:
    found = optimal(records)
    check(records, found.placement)
    assert found.is_proven
    assert found.least >= least_for_offsets(records)
    if records:
        assert found.placement.size <= best_of_greedy(records).size


@given(records=lists)
def test_the_check_finds_every_overlap(records: list[TensorRecord]) -> None:
    """Against the definition: all at offset 0 is right if no two tensors are ever alive at once."""
    size = max((record.size for record in records), default=0)
    together = any(meet(a, b) for i, a in enumerate(records) for b in records[:i])
    placement = Placement(offsets=(0,) * len(records), size=size)
    if together:
        with pytest.raises(PlanError, match="overlap"):
            check(records, placement)
    else:
        check(records, placement)


def test_a_gap_at_the_front_is_a_gap() -> None:
    for name in ("greedy_by_size", "greedy_by_breadth"):
        assert OFFSETS[name](CHAIN).size == 180
    assert optimal(CHAIN).placement.size == 180


def test_the_third_tensor_of_a_chain_reuses_the_first_ones_object() -> None:
    for name in ("greedy_by_size", "greedy_by_size_improved", "greedy_by_breadth", "greedy_in_order", "min_cost_flow"):
        placement = SHARED_OBJECTS[name](CHAIN)
        assert placement.objects is not None
        assert placement.objects[0] == placement.objects[2] != placement.objects[1]
        assert placement.size == 180


def test_bounds_by_hand() -> None:
    """Profiles {100}, {100, 80}, {80, 60}: positional maxima 100 and 80, breadths 100, 180 and 140."""
    assert positional_maxima(CHAIN) == [100, 80]
    assert least_for_shared_objects(CHAIN) == 180
    assert least_for_offsets(CHAIN) == 180
    # shared objects must hold the largest of each rank, although no operator needs both
    apart = records_of((90, 0, 0), (10, 0, 0), (50, 1, 1), (50, 1, 1))
    assert least_for_shared_objects(apart) == 140
    assert least_for_offsets(apart) == 100


def test_the_improved_greedy_leaves_objects_idle_for_less_time() -> None:
    """Two objects are free for the last tensor; it takes the one used just before, so that the next fits the other."""
    records = records_of((100, 0, 1), (100, 0, 3), (100, 4, 6), (100, 2, 6))
    assert SHARED_OBJECTS["greedy_by_size_improved"](records).size == 200


def test_what_follows_costs_least_in_all() -> None:
    """Min-cost flow: 60 after 50 and 100 after 90 grow objects by 10 each; in order, 60 would take the 90."""
    records = records_of((50, 0, 0), (90, 0, 0), (60, 1, 1), (100, 1, 1))
    assert SHARED_OBJECTS["min_cost_flow"](records).size == 160


@pytest.mark.parametrize(
    ("size", "first", "last", "message"), [(0, 0, 1, "must be positive"), (8, 3, 2, "before it is first used")]
)
def test_impossible_records_are_refused(size: int, first: int, last: int, message: str) -> None:
    with pytest.raises(PlanError, match=message):
        TensorRecord(size=size, first=first, last=last, name="t")
