# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Puts the pictures of two cameras side by side, each left one with the right one that was taken nearest to it."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Generic, NamedTuple, TypeVar

import cv2
import numpy as np
from numpy.typing import NDArray

T = TypeVar("T")

_AT_LEAST = 0.75  # of the shortest time between two pictures of the right camera, which is never quite the same
_WAITING = 16  # pictures of a camera; beyond that the oldest goes, or another one that has stopped would fill memory


class _Taken(NamedTuple, Generic[T]):
    stamp_ns: int
    picture: T


class PicturePairs(Generic[T]):
    """Pairs the pictures of a left and a right camera, each of which gives its own in the order of their stamps.

    A left picture gets the right one with the nearest stamp, as soon as none that comes later can be nearer. Live, the
    right camera's rate tells that: one that takes its pictures just before the left one is not waited for once more.
    One right picture may go with several left ones, where the right camera is slower. There is no clock in here.

    Attributes:
        most_apart_ns: how far apart the stamps of a pair may be, nanoseconds.
        unpaired: how many left pictures got none.
    """

    def __init__(self, most_apart_ns: int, *, is_live: bool = False, in_order: bool = False) -> None:
        """Begin without pictures.

        Args:
            is_live: whether pictures come as they are taken; the last few of each camera wait, at most.
            in_order: whether they come in the order of their stamps whichever camera took them, as from a recording; a
                left picture then waits no longer than a right one could be near enough.
        """
        self.most_apart_ns = most_apart_ns
        self.unpaired = 0
        self._is_live, self._in_order = is_live, in_order
        self._newest_ns = 0
        self._steps_ns: deque[int] = deque(maxlen=_WAITING)  # between the last pictures of the right camera
        self._left: deque[_Taken[T]] = deque()
        self._right: deque[_Taken[T]] = deque()

    def add_left(self, stamp_ns: int, picture: T) -> list[tuple[T, T]]:
        """Take a picture of the left camera; returns the pairs that are complete now, in order."""
        return self._add(self._left, _Taken(stamp_ns, picture))

    def add_right(self, stamp_ns: int, picture: T) -> list[tuple[T, T]]:
        """Take a picture of the right camera; returns the pairs that are complete now, in order."""
        if self._right and stamp_ns > self._right[-1].stamp_ns:
            self._steps_ns.append(stamp_ns - self._right[-1].stamp_ns)
        return self._add(self._right, _Taken(stamp_ns, picture))

    def finish(self) -> list[tuple[T, T]]:
        """Return the pairs of the left pictures that still wait: no more pictures come."""
        return list(self._paired(ends=True))

    def _add(self, side: deque[_Taken[T]], taken: _Taken[T]) -> list[tuple[T, T]]:
        if side and taken.stamp_ns < side[-1].stamp_ns:  # a recording that begins again, or another clock
            self._left.clear()
            self._right.clear()
        side.append(taken)
        self._newest_ns = taken.stamp_ns
        found = list(self._paired(ends=False))
        if self._is_live and len(self._left) > _WAITING:
            self._left.popleft()
            self.unpaired += 1
        if len(self._right) > _WAITING:
            self._right.popleft()
        return found

    def _paired(self, *, ends: bool) -> Iterator[tuple[T, T]]:
        """Take the left pictures whose partner is certain from those that wait, and yield them with it."""
        while self._left and (ends or self._is_certain(self._left[0])):
            left = self._left.popleft()
            while len(self._right) > 1 and self._distance_ns(left, self._right[1]) <= self._distance_ns(
                left, self._right[0]
            ):
                self._right.popleft()  # of no use to later pictures either
            if self._right and self._distance_ns(left, self._right[0]) <= self.most_apart_ns:
                yield left.picture, self._right[0].picture
            else:
                self.unpaired += 1

    def _is_certain(self, left: _Taken[T]) -> bool:
        """Tell whether no right picture that comes later can be nearer than those that wait, or near enough."""
        if self._in_order and self._newest_ns - left.stamp_ns > self.most_apart_ns:
            return True
        if not self._right:
            return False
        last = self._right[-1]
        next_ns = last.stamp_ns + (round(_AT_LEAST * min(self._steps_ns)) if self._is_live and self._steps_ns else 0)
        return next_ns - left.stamp_ns >= self._distance_ns(left, last) or last.stamp_ns >= left.stamp_ns

    @staticmethod
    def _distance_ns(left: _Taken[T], right: _Taken[T]) -> int:
        return abs(left.stamp_ns - right.stamp_ns)


def side_by_side(left: NDArray[np.uint8], right: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return a frame that shows two pictures side by side, uint8 [height, 2 * width, 3].

    Args:
        left: uint8 [height, width, 3].
        right: the same, or of another size: it is brought to that of the left one by nearest neighbours, which do not
            blend the distances on both sides of an edge.
    """
    height, width = left.shape[:2]
    if right.shape[:2] != (height, width):
        right = np.asarray(cv2.resize(right, (width, height), interpolation=cv2.INTER_NEAREST_EXACT), np.uint8)
    return np.concatenate((left, right), axis=1)
