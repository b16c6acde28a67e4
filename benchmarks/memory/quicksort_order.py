# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The order in which C++'s ``std::sort`` leaves equal elements, on which figures of the memory paper depend.

The standard leaves it open. This is what LLVM's library did when the paper was written, for fewer than a thousand
elements of a kind that is not trivially copied: quicksort about the median of three, and insertion for up to six.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter

_SHORT = 6  # up to so many elements are sorted by insertion
_FEW = 8  # insertions after which a range is no longer taken for nearly sorted

_Items = list[tuple[int, int]]  # (key, index), compared by the key alone


def quicksort_order(keys: Sequence[int]) -> list[int]:
    """Return the indices of ``keys`` in ascending order of the keys, those of equal keys as quicksort leaves them."""
    items = [(key, index) for index, key in enumerate(keys)]
    ranges = [(0, len(items))]
    while ranges:
        begin, end = ranges.pop()
        if end - begin <= _SHORT:
            items[begin:end] = sorted(items[begin:end], key=itemgetter(0))
            continue
        below, above, swaps = _partition(items, begin, end)
        halves = [(begin, below), (above, end)]
        ranges += [half for half in halves if swaps or not _sorts_by_few_insertions(items, *half)]
    return [index for _, index in items]


def _partition(items: _Items, begin: int, end: int) -> tuple[int, int, int]:
    """Divide a range; return the index after its lower part, that of its upper part, and the number of swaps.

    What lies between the two is in its place.
    """
    middle, back = begin + (end - begin) // 2, end - 1
    three = items[begin], items[middle], items[back]
    items[begin], items[middle], items[back] = sorted(three, key=itemgetter(0))
    swaps = int(three != (items[begin], items[middle], items[back]))
    if items[begin][0] == items[middle][0]:
        back = next((i for i in range(back - 1, begin, -1) if items[i][0] < items[middle][0]), begin)
        if back == begin:
            return begin, _bring_least_to_front(items, begin, end), 1
        _swap(items, begin, back)
        swaps += 1
    front = begin + 1
    if front < back:
        while True:
            while items[front][0] < items[middle][0]:
                front += 1
            back = next(i for i in range(back - 1, -1, -1) if items[i][0] < items[middle][0])
            if front > back:
                break
            _swap(items, front, back)
            swaps += 1
            if front == middle:
                middle = back
            front += 1
    if items[middle][0] < items[front][0]:
        _swap(items, front, middle)
        swaps += 1
    return front, front + 1, swaps


def _bring_least_to_front(items: _Items, begin: int, end: int) -> int:
    """Bring what equals the first element, than which none is less, to the front; return the index after it."""
    least = items[begin][0]
    front, back = begin + 1, end - 1
    if items[back][0] == least:
        front = next((i for i in range(front, back) if items[i][0] > least), back)
        if front == back:
            return end
        _swap(items, front, back)
        front += 1
    while True:
        front = next(i for i in range(front, end) if items[i][0] > least)
        back = next(i for i in range(back - 1, -1, -1) if items[i][0] == least)
        if front >= back:
            return front
        _swap(items, front, back)
        front += 1


def _swap(items: _Items, one: int, other: int) -> None:
    items[one], items[other] = items[other], items[one]


def _sorts_by_few_insertions(items: _Items, begin: int, end: int) -> bool:
    """Sort a range by insertion, but give up after a few; return whether it is sorted."""
    moved = 0
    for i in range(begin + 1, end):
        place = next((p for p in range(begin, i) if items[p][0] > items[i][0]), i)
        if place == i:
            continue
        items[place : i + 1] = [items[i], *items[place:i]]
        moved += i >= begin + 3  # the first three elements are sorted in any case
        if moved == _FEW:
            return i + 1 == end
    return True
