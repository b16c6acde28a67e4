# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Which frame to work on next: images waiting for their cache maps, and queues in which the latest frame wins.

No ROS, no clock and no thread in here: time is an argument, so that loss, reordering and silence are plain unit tests.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Generic, TypeVar

from cacheinf_ros.pipeline.map_chain import EMPTY, MAPS_KEPT, UNORDERED, CacheChain, MapPath, MapUpdate

T = TypeVar("T")

WAITING_FRAMES = 8
"""Frames that wait for their map at most: a matcher slower than the camera is still kept up with."""


class LatestQueue(Generic[T]):
    """Keeps the latest frames; the oldest is dropped where there are too many."""

    def __init__(self, size: int, is_open: Callable[[], bool] = lambda: True) -> None:
        """``is_open``: whether a frame may be taken now."""
        self._items: deque[T] = deque()
        self._size = size
        self._is_open = is_open
        self.dropped = 0

    def put(self, item: T) -> None:
        """Add the newest frame."""
        self._items.append(item)
        if len(self._items) > self._size:
            self._items.popleft()
            self.dropped += 1

    def take(self, now_ns: int) -> T | None:
        """The frame to work on, if any."""
        return self._items.popleft() if self._items and self._is_open() else None

    @property
    def waiting(self) -> int:
        """How many are there to be taken."""
        return len(self._items)

    def deadline_ns(self) -> int | None:
        """When :meth:`take` may answer otherwise without a new frame: never."""
        return None

    def drop_all(self) -> None:
        """Drop the frames that are there."""
        self.dropped += len(self._items)
        self._items.clear()


class Outcome(Enum):
    """What a frame did to the cache."""

    CACHED = "it holds the frame"
    UNTOUCHED = "it holds what it held"
    LOST = "it holds nothing"


@dataclass(frozen=True, slots=True, kw_only=True)
class Paired(Generic[T]):
    """A frame to run, and what of the cache is reusable for it.

    Attributes:
        frame: what was given to :meth:`FramePairing.add_frame`.
        stamp_ns: of the frame.
        path: leads to it from what the cache holds.
        timed_out: whether the map was waited for in vain.
    """

    frame: T
    stamp_ns: int
    path: MapPath
    timed_out: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class _Waiting(Generic[T]):
    frame: T
    stamp_ns: int
    since_ns: int
    epoch: int  # how often time had gone backwards
    is_unordered: bool  # time went backwards, or stood still, at this frame and at the one before it


class FramePairing(Generic[T]):
    """Pairs frames with cache maps by stamp; of those that are ready, the latest ``queue_size`` are kept."""

    def __init__(self, *, map_timeout_ns: int, queue_size: int = 1) -> None:
        self.chain = CacheChain(max(MAPS_KEPT, 2 * queue_size))
        self.dropped = 0
        self._map_timeout_ns = map_timeout_ns
        self._queue_size = queue_size
        self._frames: deque[_Waiting[T]] = deque()
        self._maps_silent = False  # the last wait was in vain, and no map has come since
        self._epoch = self._taken_epoch = 0
        self._last_stamp_ns: int | None = None
        self._not_after = 0  # how many frames in a row were not after the one before them

    def add_frame(self, frame: T, stamp_ns: int, now_ns: int) -> None:
        """Take a frame; one whose stamp is not after the last one's says that time went backwards."""
        if self._last_stamp_ns is not None and stamp_ns <= self._last_stamp_ns:
            self._epoch += 1
            self._not_after += 1
            self.chain.invalidate_from(stamp_ns)
        else:
            self._not_after = 0
        self._last_stamp_ns = stamp_ns
        self._frames.append(
            _Waiting(
                frame=frame,
                stamp_ns=stamp_ns,
                since_ns=now_ns,
                epoch=self._epoch,
                is_unordered=self._not_after > 1,  # a bag that loops goes on in order
            )
        )
        self._drop(len(self._frames) - max(WAITING_FRAMES, self._queue_size))

    def add_map(self, link: MapUpdate) -> None:
        """Take a cache map."""
        self._maps_silent = False
        self.chain.add(link)

    def take(self, now_ns: int) -> Paired[T] | None:
        """The frame to run now, if one has its map or has waited long enough for it.

        A frame older than one that has its map will not get its own any more.
        """
        stamps = self.chain.stamps
        mapped = [i for i, waiting in enumerate(self._frames) if waiting.stamp_ns in stamps]
        ready = mapped or [i for i, waiting in enumerate(self._frames) if self._is_overdue(waiting, now_ns)]
        if not ready:
            return None
        self._drop(ready[-1] + 1 - self._queue_size)
        return self._paired(self._frames.popleft())

    def note(self, paired: Paired[T], outcome: Outcome) -> None:
        """Take note of what running a frame did to the cache."""
        if outcome is Outcome.CACHED:
            self.chain.mark_cached(paired.stamp_ns)
        elif outcome is Outcome.LOST:
            self.chain.invalidate()

    @property
    def waiting(self) -> int:
        """How many frames are there, with or without a map."""
        return len(self._frames)

    def deadline_ns(self) -> int | None:
        """When the first frame that waits will have waited long enough."""
        return self._frames[0].since_ns + self._map_timeout_ns if self._frames else None

    def drop_all(self) -> None:
        """Drop the frames that are there."""
        self._drop(len(self._frames))

    def _paired(self, waiting: _Waiting[T]) -> Paired[T]:
        if waiting.epoch != self._taken_epoch:
            self.chain.invalidate()
        self._taken_epoch = waiting.epoch
        timed_out = self.chain.find(waiting.stamp_ns) is None
        self._maps_silent |= timed_out
        path = self.chain.path(waiting.stamp_ns)
        if path.gap == EMPTY and waiting.is_unordered:
            path = MapPath(gap=UNORDERED)
        return Paired(frame=waiting.frame, stamp_ns=waiting.stamp_ns, path=path, timed_out=timed_out)

    def _is_overdue(self, waiting: _Waiting[T], now_ns: int) -> bool:
        return self._maps_silent or now_ns - waiting.since_ns >= self._map_timeout_ns

    def _drop(self, count: int) -> None:
        for _ in range(count):
            self._frames.popleft()
            self.dropped += 1
