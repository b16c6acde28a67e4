# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Chooses the frame to work on next: images wait for their cache maps, and in queues the latest frame wins.

There is no ROS, no clock and no thread in here: time is an argument, so that loss, reordering and silence can be tested
by plain unit tests.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum
from typing import Generic, TypeVar

from cacheinf_ros.pipeline.map_chain import EMPTY, MAPS_KEPT, UNORDERED, CacheChain, MapPath, MapUpdate
from cacheinf_ros.pipeline.new_beginning import begins_anew

T = TypeVar("T")

WAITING_FRAMES = 8
"""The number of frames that wait for their maps, at most: enough for a matcher that is slower than the camera."""


class LatestQueue(Generic[T]):
    """A queue of the latest frames; the oldest is dropped where there are too many."""

    def __init__(self, size: int, is_open: Callable[[], bool] = lambda: True) -> None:
        """Begin empty; ``size``: how many frames may wait, ``is_open``: tells whether a frame may be taken now."""
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
        """Return the frame to work on, and remove it; None where there is none or none may be taken."""
        return self._items.popleft() if self._items and self._is_open() else None

    @property
    def waiting(self) -> int:
        """The number of frames that wait."""
        return len(self._items)

    def deadline_ns(self) -> int | None:
        """Return None: there is no time from which :meth:`take` would answer otherwise without a new frame."""
        return None

    def drop_all(self) -> None:
        """Drop all frames that wait."""
        self.dropped += len(self._items)
        self._items.clear()


class Outcome(Enum):
    """What a frame did to the cache."""

    CACHED = "it holds the frame"
    UNTOUCHED = "it holds what it held"
    LOST = "it holds nothing"


@dataclass(frozen=True, slots=True, kw_only=True)
class Paired(Generic[T]):
    """A frame to run, with the maps that lead to it.

    Attributes:
        frame: what was given to :meth:`FramePairing.add_frame`.
        stamp_ns: the stamp of the frame.
        path: the maps from what the cache holds to the frame.
        timed_out: whether the frame's map did not arrive in time.
        starts_over: whether the stream began anew since the frame that was taken before (:func:`begins_anew`).
    """

    frame: T
    stamp_ns: int
    path: MapPath
    timed_out: bool = False
    starts_over: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class _Waiting(Generic[T]):
    frame: T
    stamp_ns: int
    since_ns: int
    epoch: int  # how often time had gone backwards before this frame
    beginnings: int  # how often the stream had begun anew
    is_unordered: bool  # time went backwards, or stood still, at this frame and at the one before it


class FramePairing(Generic[T]):
    """Pairs frames with cache maps by stamp; of the frames that are ready, the latest ``queue_size`` are kept."""

    def __init__(self, *, map_timeout_ns: int, queue_size: int = 1) -> None:
        self.chain = CacheChain(max(MAPS_KEPT, 2 * queue_size))
        self.dropped = 0
        self._map_timeout_ns = map_timeout_ns
        self._queue_size = queue_size
        self._frames: deque[_Waiting[T]] = deque()
        self._maps_silent = False  # the last wait was in vain, and no map has come since
        self._in_vain_since_ns: int | None = None  # when take was first asked for one of the waiting frames, in vain
        self._epoch = self._taken_epoch = 0
        self._beginnings = self._taken_beginnings = 0
        self._last_stamp_ns: int | None = None
        self._not_after = 0  # consecutive frames whose stamps were not after the one before

    def add_frame(self, frame: T, stamp_ns: int, now_ns: int) -> None:
        """Add a frame; a stamp that is not after the last one's means that time went backwards.

        Where too many frames wait, the oldest is dropped. Those of a fast camera all are, before they are overdue: so
        none waits any more once one could have been run for that long, and none had its map.
        """
        if self._last_stamp_ns is not None and stamp_ns <= self._last_stamp_ns:
            self._epoch += 1
            self._beginnings += begins_anew(self._last_stamp_ns, stamp_ns)
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
                beginnings=self._beginnings,
                is_unordered=self._not_after > 1,  # a looping bag jumps back once, then goes on in order
            )
        )
        excess = len(self._frames) - max(WAITING_FRAMES, self._queue_size)
        if excess > 0 and self._in_vain_since_ns is not None and not self._mapped():
            self._maps_silent |= now_ns - self._in_vain_since_ns >= self._map_timeout_ns
        self._drop(excess)

    def add_map(self, link: MapUpdate) -> None:
        """Add a cache map."""
        self._maps_silent = False
        self.chain.add(link)

    def take(self, now_ns: int) -> Paired[T] | None:
        """Return the frame to run now; None where none has its map or has waited long enough for it.

        A frame older than one that has its map will not get its own any more.
        """
        ready = self._mapped() or [i for i, waiting in enumerate(self._frames) if self._is_overdue(waiting, now_ns)]
        if not ready:
            if self._frames and self._in_vain_since_ns is None:
                self._in_vain_since_ns = now_ns
            return None
        self._in_vain_since_ns = None
        self._drop(ready[-1] + 1 - self._queue_size)
        return self._paired(self._frames.popleft())

    def note(self, paired: Paired[T], outcome: Outcome) -> None:
        """Take note of what running a frame did to the cache."""
        if outcome is Outcome.CACHED:
            self.chain.mark_cached(paired.stamp_ns, paired.path)
        elif outcome is Outcome.LOST:
            self.chain.invalidate()

    @property
    def waiting(self) -> int:
        """The number of frames that wait, with or without a map."""
        return len(self._frames)

    def deadline_ns(self) -> int | None:
        """Return when the first waiting frame will have waited long enough; None where none waits."""
        return self._frames[0].since_ns + self._map_timeout_ns if self._frames else None

    def drop_all(self) -> None:
        """Drop all frames that wait."""
        self._drop(len(self._frames))

    def _mapped(self) -> list[int]:
        """Return the places, among the waiting frames, of those that have their maps."""
        stamps = self.chain.stamps
        return [place for place, waiting in enumerate(self._frames) if waiting.stamp_ns in stamps]

    def _paired(self, waiting: _Waiting[T]) -> Paired[T]:
        if waiting.epoch != self._taken_epoch:
            self.chain.invalidate()
        starts_over = waiting.beginnings != self._taken_beginnings
        self._taken_epoch, self._taken_beginnings = waiting.epoch, waiting.beginnings
        path = self.chain.path(waiting.stamp_ns)
        timed_out = path.own is None
        self._maps_silent |= timed_out
        if path.gap == EMPTY and waiting.is_unordered:
            path = replace(path, gap=UNORDERED)
        return Paired(
            frame=waiting.frame,
            stamp_ns=waiting.stamp_ns,
            path=path,
            timed_out=timed_out,
            starts_over=starts_over,
        )

    def _is_overdue(self, waiting: _Waiting[T], now_ns: int) -> bool:
        return self._maps_silent or now_ns - waiting.since_ns >= self._map_timeout_ns

    def _drop(self, count: int) -> None:
        for _ in range(count):
            self._frames.popleft()
            self.dropped += 1
