# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""What is to be done at which time."""

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
    """Calls functions in the order of their times, those of one time in the order in which they were added."""

    def __init__(self) -> None:
        self._entries: list[_Entry] = []
        self._numbers = itertools.count()

    def __bool__(self) -> bool:
        return bool(self._entries)

    def at(self, at_s: float, act: Callable[[], None]) -> None:
        """Have a function called at a time, or as soon as possible after it; seconds of any one clock."""
        heapq.heappush(self._entries, _Entry(at_s, next(self._numbers), act))

    def act(self, now_s: float) -> None:
        """Call what is due by now; what these functions add is called too, where it is due."""
        while self._entries and self._entries[0].at_s <= now_s:
            heapq.heappop(self._entries).act()
