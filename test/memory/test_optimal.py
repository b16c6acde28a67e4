# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Tests of the smallest placement, and of what is found where the search is not finished."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from records import records_of, tensor_lists

from cacheinf_ros.memory import OFFSETS, SHARED_OBJECTS, TensorRecord, best_of_greedy, check, least_for_offsets
from cacheinf_ros.memory.optimal import optimal


@settings(max_examples=40, deadline=None)
@given(records=tensor_lists)
def test_nothing_beats_the_optimum(records: list[TensorRecord]) -> None:
    found = optimal(records)
    check(records, found.placement)
    assert found.is_proven
    assert found.least >= least_for_offsets(records)
    if records:
        assert found.placement.size <= best_of_greedy(records).size


def _hard(seed: int) -> list[TensorRecord]:
    rng = np.random.default_rng(seed)
    starts, lives, sizes = rng.integers(0, 12, 14), rng.integers(0, 5, 14), rng.integers(1, 9, 14)
    return records_of(*zip(sizes.tolist(), starts.tolist(), (starts + lives).tolist(), strict=True))


def test_the_optimum_is_smaller_than_every_greedy_placement_where_that_is_possible() -> None:
    better = 0
    for seed in range(40):
        records = _hard(seed)
        found = optimal(records)
        check(records, found.placement)
        assert found.is_proven
        greedy = min(strategy(records).size for strategy in (*OFFSETS.values(), *SHARED_OBJECTS.values()))
        assert found.placement.size <= greedy == best_of_greedy(records).size
        better += found.placement.size < greedy
    assert better > 0


def test_what_is_enough_ends_the_search() -> None:
    records = _hard(3)
    greedy = best_of_greedy(records)
    assert optimal(records, capacity=greedy.size).placement == greedy


def test_without_time_the_best_greedy_remains() -> None:
    records = _hard(3)
    assert optimal(records, time_limit_s=0).placement.size <= best_of_greedy(records).size
