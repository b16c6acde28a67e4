# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Where quicksort leaves equal elements."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.memory.quicksort_order import quicksort_order

LIBRARY = [
    ([1] * 9, [0, 1, 2, 3, 4, 5, 6, 7, 8]),
    ([2, 1] * 6, [11, 1, 9, 3, 7, 5, 0, 4, 8, 2, 10, 6]),
    ([0, 1, 2, 3, 4, 5, 6, 7], [0, 1, 2, 3, 4, 5, 6, 7]),
    ([3, 1, 2, 2, 1, 0, 2, 1, 3, 0, 2, 2], [9, 5, 1, 7, 4, 3, 11, 2, 6, 10, 8, 0]),
    ([0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 1, 5], [0, 1, 2, 3, 10, 4, 5, 7, 6, 8, 9, 11]),
    ([5, 0, 4, 0, 3, 0, 2, 0, 1, 0, 0, 0], [11, 1, 10, 3, 9, 5, 7, 8, 6, 4, 2, 0]),
    ([*range(1, 17), 0, 17, 3], [16, 0, 1, 18, *range(2, 16), 17]),
    # whether a range that was sorted before is noticed, and when it is not
    ([0, 1, 2, 3, 1, 1, 4, 1, 4], [0, 1, 4, 5, 7, 2, 3, 6, 8]),
    ([1, 6, 4, 7, 8, 7, 2, 3, 1], [0, 8, 6, 7, 2, 1, 5, 3, 4]),
    ([3, 3, 4, 6, 4, 0, 6, 5, 7, 7], [5, 1, 0, 2, 4, 7, 6, 3, 8, 9]),
    ([8, 8, 0, 1, 9, 5, 7], [2, 3, 5, 6, 1, 0, 4]),
    (
        [0, 1, 1, 4, 1, 1, 2, 2, 2, 1, 2, 4, 3, 2, 3, 2, 3, 3, 1],
        [0, 1, 2, 4, 5, 9, 18, 7, 8, 10, 6, 15, 13, 14, 12, 16, 17, 3, 11],
    ),
    ([1, 2, 4, 4, 2, 4, 5, 9, 2, 8, 6, 8, 8, 2, 7, 2], [0, 1, 4, 8, 13, 15, 2, 3, 5, 6, 10, 14, 9, 11, 12, 7]),
]
"""Keys, and where LLVM 12's ``std::sort`` left them (compiled once, with elements that have a copy constructor)."""


@pytest.mark.parametrize(("keys", "order"), LIBRARY)
def test_equal_elements_go_where_the_library_puts_them(keys: list[int], order: list[int]) -> None:
    assert quicksort_order(keys) == order


@given(keys=st.lists(st.integers(0, 9), max_size=60))
def test_keys_are_in_order(keys: list[int]) -> None:
    order = quicksort_order(keys)
    assert sorted(order) == list(range(len(keys)))
    assert [keys[i] for i in order] == sorted(keys)


@given(keys=st.lists(st.integers(0, 2), max_size=6))
def test_a_few_elements_are_sorted_stably(keys: list[int]) -> None:
    assert quicksort_order(keys) == sorted(range(len(keys)), key=keys.__getitem__)
