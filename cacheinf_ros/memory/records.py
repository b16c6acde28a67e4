# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""When tensors are alive, and the least memory that this allows.

Terms and bounds of Pisarchyk and Lee, "Efficient Memory Management for Deep Neural Net Inference" (2020), section 3:
a tensor's *usage record* holds its size and the first and last operator that touch it; an operator's *profile* is the
records alive while it runs, and its *breadth* the sum of their sizes; the i-th *positional maximum* is the largest
i-th largest size of any profile.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cacheinf_ros.errors import PlanError

MIB = 2**20
"""The bytes of a mebibyte."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorRecord:
    """A tensor that lives only within a frame.

    Attributes:
        size: bytes, aligned.
        first: index of the operator that writes it.
        last: index of the last operator that reads it; the tensor is alive from first to last, both included.
        name: name of the tensor, for pictures and messages.

    Raises:
        PlanError: the size is not positive, or the last use comes before the first.
    """

    size: int
    first: int
    last: int
    name: str = ""

    def __post_init__(self) -> None:
        if self.size <= 0:
            raise PlanError(f"tensor {self.name!r} has a size of {self.size} bytes; it must be positive")
        if self.last < self.first:
            raise PlanError(f"tensor {self.name!r} is last used ({self.last}) before it is first used ({self.first})")


def columns(records: Sequence[TensorRecord]) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Return (sizes, firsts, lasts) of the records, each int64 [records]."""
    table = np.array([(record.size, record.first, record.last) for record in records], np.int64).reshape(-1, 3)
    sizes, firsts, lasts = np.ascontiguousarray(table.T)
    return sizes, firsts, lasts


def aligned(size: int, alignment: int) -> int:
    """Round the size up to a multiple of the alignment."""
    return -(-size // alignment) * alignment


def profiles(records: Sequence[TensorRecord]) -> Iterator[tuple[int, list[int]]]:
    """Yield (operator, indices of the records alive, largest first) for each operator at which a tensor begins to live.

    At every other operator, all tensors alive were alive at the one before: neither bounds nor strategies need it.
    """
    order = sorted(range(len(records)), key=lambda i: records[i].first)
    alive: list[tuple[int, int]] = []  # (-size, index), sorted
    position = 0
    while position < len(order):
        operator = records[order[position]].first
        alive = [entry for entry in alive if records[entry[1]].last >= operator]
        while position < len(order) and records[order[position]].first == operator:
            insort(alive, (-records[order[position]].size, order[position]))
            position += 1
        yield operator, [index for _, index in alive]


def breadth(records: Sequence[TensorRecord], profile: Sequence[int]) -> int:
    """Return the bytes that the records of a profile take together."""
    return sum(records[i].size for i in profile)


def positional_maxima(records: Sequence[TensorRecord]) -> list[int]:
    """Return the positional maxima, descending: the i-th shared object must be at least so large."""
    maxima: list[int] = []
    for _, profile in profiles(records):
        maxima += [0] * (len(profile) - len(maxima))
        for position, index in enumerate(profile):
            maxima[position] = max(maxima[position], records[index].size)
    return maxima


def least_for_shared_objects(records: Sequence[TensorRecord]) -> int:
    """Return the bytes below which no assignment to shared objects can be: the sum of the positional maxima."""
    return sum(positional_maxima(records))


def least_for_offsets(records: Sequence[TensorRecord]) -> int:
    """Return the bytes below which no placement in one arena can be: the largest breadth."""
    return max((breadth(records, profile) for _, profile in profiles(records)), default=0)


def by_size(records: Sequence[TensorRecord]) -> list[int]:
    """Return indices of the records, largest first; of equal ones, those that live longer first."""
    return sorted(range(len(records)), key=lambda i: (-records[i].size, records[i].first - records[i].last))


def by_breadth(records: Sequence[TensorRecord]) -> list[int]:
    """Return indices of the records as operators of decreasing breadth need them, for each operator largest first."""
    ordered = sorted(profiles(records), key=lambda entry: -breadth(records, entry[1]))
    return list(dict.fromkeys(index for _, profile in ordered for index in profile))
