# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""A list of functions to be called at given times."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(order=True)
class _Entry:
    at_s: float
    number: int
    act: Callable[[], None] = field(compare=False)


class Agenda:
    """Calls functions in the order of their times; those of the same time in the order in which they were added."""

    def __init__(self) -> None:
        self._entries: list[_Entry] = []
        self._numbers = itertools.count()

    def __bool__(self) -> bool:
        return bool(self._entries)

    def at(self, at_s: float, act: Callable[[], None]) -> None:
        """Schedule a function for a time, or as soon as possible after it, in seconds of any one clock."""
        heapq.heappush(self._entries, _Entry(at_s, next(self._numbers), act))

    def act(self, now_s: float) -> None:
        """Call all functions that are due, including those that they schedule for now or earlier."""
        while self._entries and self._entries[0].at_s <= now_s:
            heapq.heappop(self._entries).act()
