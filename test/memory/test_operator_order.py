# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The operator order with the least memory equals the best of all orders, judged by the exact placement."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations

from hypothesis import given, settings
from hypothesis import strategies as st

from cacheinf_ros.memory import TensorRecord, least_for_offsets
from cacheinf_ros.memory.operator_order import OperatorUse, smallest_order
from cacheinf_ros.memory.optimal import optimal


@st.composite
def graphs(draw: st.DrawFn) -> tuple[list[OperatorUse], list[int]]:
    """Draw operators that each write a tensor, which some later ones read."""
    count = draw(st.integers(1, 6))
    uses = []
    for index in range(count):
        reads = draw(st.frozensets(st.integers(0, index - 1), max_size=2)) if index else frozenset()
        uses.append(OperatorUse(after=reads, tensors=reads | {index}))
    return uses, draw(st.lists(st.integers(1, 9), min_size=count, max_size=count))


def records(operators: Sequence[OperatorUse], sizes: Sequence[int], order: Sequence[int]) -> list[TensorRecord]:
    times = [[t for t, index in enumerate(order) if tensor in operators[index].tensors] for tensor in range(len(sizes))]
    return [TensorRecord(size=s, first=min(t), last=max(t)) for s, t in zip(sizes, times, strict=True)]


def is_valid(operators: Sequence[OperatorUse], order: Sequence[int]) -> bool:
    return all(operators[index].after <= set(order[:time]) for time, index in enumerate(order))


@settings(deadline=None, max_examples=60)
@given(graphs())
def test_no_order_has_a_smaller_breadth(graph: tuple[list[OperatorUse], list[int]]) -> None:
    operators, sizes = graph
    found = smallest_order(operators, sizes)
    assert is_valid(operators, found.order)
    assert sorted(found.order) == list(range(len(operators)))
    assert found.breadth == least_for_offsets(records(operators, sizes, found.order))
    orders = [order for order in permutations(range(len(operators))) if is_valid(operators, order)]
    assert found.is_best
    assert found.breadth == min(least_for_offsets(records(operators, sizes, order)) for order in orders)


def test_the_arena_is_the_smallest_of_all_orders() -> None:
    """Of two branches from one tensor the larger one goes first, while the other has not begun."""
    after = ((), (0,), (1,), (0,), (3,), (2, 4))
    operators = [OperatorUse(after=frozenset(a), tensors=frozenset({*a, i})) for i, a in enumerate(after)]
    sizes = [4, 2, 9, 8, 1, 1]
    orders = [order for order in permutations(range(6)) if is_valid(operators, order)]
    arenas = [optimal(records(operators, sizes, order)).placement.size for order in orders]
    found = smallest_order(operators, sizes)
    assert optimal(records(operators, sizes, found.order)).placement.size == min(arenas) < arenas[0]


def test_a_narrow_beam_still_gives_an_order() -> None:
    operators = [OperatorUse(after=frozenset(), tensors=frozenset({i})) for i in range(6)]
    found = smallest_order(operators, [1] * 6, beam=2)
    assert sorted(found.order) == list(range(6))
    assert not found.is_best
