# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Planning the memory in several rounds."""

from __future__ import annotations

from itertools import chain

from hypothesis import given
from hypothesis import strategies as st
from records import records_of

from benchmarks.memory.rounds import by_time, in_rounds
from cacheinf_ros.memory import OFFSETS, Placement, TensorRecord, check

tensors = st.builds(
    lambda size, first, life: TensorRecord(size=size, first=first, last=first + life),
    st.integers(1, 9),
    st.integers(0, 12),
    st.integers(0, 5),
)


@given(records=st.lists(tensors, min_size=1, max_size=14), count=st.integers(1, 5))
def test_no_two_live_tensors_overlap_and_nothing_moves(records: list[TensorRecord], count: int) -> None:
    rounds = by_time(records, count)
    assert sorted(map(id, chain.from_iterable(rounds))) == sorted(map(id, records))
    placements = in_rounds(rounds)
    known: list[TensorRecord] = []
    offsets: tuple[int, ...] = ()
    for group, placement in zip(rounds, placements, strict=True):
        known, offsets = known + group, offsets + placement.offsets
        check(known, Placement(offsets=offsets, size=placement.size))


@given(records=st.lists(tensors, min_size=1, max_size=14))
def test_one_round_is_greedy_by_size(records: list[TensorRecord]) -> None:
    (placement,) = in_rounds([records])
    assert placement == OFFSETS["greedy_by_size"](records)


def test_what_lies_already_stays_in_the_way() -> None:
    """Sizes 2 and 3 live in [0, 1] and [1, 2]: known together the larger lies below, known in two rounds the first."""
    first, second = records_of((2, 0, 1), (3, 1, 2))
    assert in_rounds([[first, second]])[0].offsets == (3, 0)
    assert [placement.offsets for placement in in_rounds([[first], [second]])] == [(0,), (2,)]
    assert [placement.size for placement in in_rounds([[first], [second]])] == [2, 5]
