# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Placements of tensors are valid, and never smaller than their lower bounds."""

from __future__ import annotations

import pytest
from hypothesis import given
from records import meet, records_of, tensor_lists

from cacheinf_ros.errors import PlanError
from cacheinf_ros.memory import (
    OFFSETS,
    SHARED_OBJECTS,
    TensorRecord,
    check,
    least_for_offsets,
    least_for_shared_objects,
)
from cacheinf_ros.memory.optimal import optimal
from cacheinf_ros.memory.records import positional_maxima

CHAIN = records_of((100, 0, 1), (80, 1, 2), (60, 2, 3))  # each alive with its neighbours


@pytest.mark.parametrize(
    ("kind", "name"), [("object", name) for name in SHARED_OBJECTS] + [("offset", name) for name in OFFSETS]
)
@given(records=tensor_lists)
def test_no_two_live_tensors_share_memory(kind: str, name: str, records: list[TensorRecord]) -> None:
    strategies, least = {
        "object": (SHARED_OBJECTS, least_for_shared_objects),
        "offset": (OFFSETS, least_for_offsets),
    }[kind]
    placement = strategies[name](records)
    check(records, placement)
    assert placement.size >= least(records)
    if name != "naive":
        assert placement.size <= sum(record.size for record in records)
    if kind == "object":
        assert placement.objects is not None
        for i, one in enumerate(records):
            for j, other in enumerate(records[:i]):
                assert placement.objects[i] != placement.objects[j] or not meet(one, other)


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
    """The profiles are {100}, {100, 80} and {80, 60}: positional maxima 100 and 80, breadths 100, 180 and 140."""
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
    """Min-cost flow puts 60 after 50 and 100 after 90, growing objects by 10 each; in order, 60 would take the 90."""
    records = records_of((50, 0, 0), (90, 0, 0), (60, 1, 1), (100, 1, 1))
    assert SHARED_OBJECTS["min_cost_flow"](records).size == 160


@pytest.mark.parametrize(
    ("size", "first", "last", "message"), [(0, 0, 1, "must be positive"), (8, 3, 2, "before it is first used")]
)
def test_impossible_records_are_refused(size: int, first: int, last: int, message: str) -> None:
    with pytest.raises(PlanError, match=message):
        TensorRecord(size=size, first=first, last=last, name="t")
