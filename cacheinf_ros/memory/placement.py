# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Placements of tensors in the arena, and the shared objects that some strategies make of it."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Sequence
from dataclasses import dataclass, field

from cacheinf_ros.errors import PlanError
from cacheinf_ros.memory.records import TensorRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """Offsets of tensors in one arena.

    Attributes:
        offsets: bytes, in the order of the records.
        size: bytes of the arena.
        objects: for each tensor, which shared object it lies in; objects lie one behind another. None: there are none.
    """

    offsets: tuple[int, ...]
    size: int
    objects: tuple[int, ...] | None = None


def check(records: Sequence[TensorRecord], placement: Placement) -> None:
    """Raise :class:`PlanError` where two tensors overlap that are alive at once, or one lies outside the arena."""
    if len(records) != len(placement.offsets):
        raise PlanError(f"a placement of {len(placement.offsets)} tensors for {len(records)}")
    order = sorted(range(len(records)), key=lambda i: records[i].first)
    alive: list[tuple[int, int]] = []  # (offset, index), sorted; disjoint, so that checking neighbours suffices
    for index in order:
        record, offset = records[index], placement.offsets[index]
        if offset < 0 or offset + record.size > placement.size:
            raise PlanError(f"tensor {record.name!r} lies outside the arena of {placement.size} bytes")
        alive = [entry for entry in alive if records[entry[1]].last >= record.first]
        place = bisect_left(alive, (offset, index))
        for other_offset, other in alive[max(0, place - 1) : place + 1]:
            if other_offset < offset + record.size and offset < other_offset + records[other].size:
                raise PlanError(f"tensors {records[other].name!r} and {record.name!r} are alive at once and overlap")
        insort(alive, (offset, index))


@dataclass(slots=True)
class SharedObject:
    """A buffer that tensors use one after another.

    Attributes:
        size: bytes.
        uses: (first, last) operator of each tensor, sorted.
    """

    size: int = 0
    uses: list[tuple[int, int]] = field(default_factory=list)

    def suits(self, record: TensorRecord) -> bool:
        """Tell whether nobody uses the object while the tensor is alive."""
        after = bisect_left(self.uses, (record.first, record.first))
        free_after = after == len(self.uses) or self.uses[after][0] > record.last
        return free_after and (after == 0 or self.uses[after - 1][1] < record.first)

    def use(self, record: TensorRecord) -> None:
        """Add the tensor, and grow the object if need be."""
        insort(self.uses, (record.first, record.last))
        self.size = max(self.size, record.size)


def in_objects(objects: Sequence[SharedObject], object_of: Sequence[int]) -> Placement:
    """Return the placement of tensors in shared objects, which lie one behind another."""
    starts, end = [], 0
    for shared in objects:
        starts.append(end)
        end += shared.size
    return Placement(offsets=tuple(starts[i] for i in object_of), size=end, objects=tuple(object_of))
