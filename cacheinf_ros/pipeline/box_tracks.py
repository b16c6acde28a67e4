# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Gives every box a number that stays with its object from frame to frame.

This follows SORT (Bewley and others, ICIP 2016): boxes of the frame are assigned to the expected places of earlier
boxes such that the sum of overlaps is largest. Smoothed differences of positions replace SORT's Kalman filter.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from cacheinf_ros.engine import Box

_LEAST_OVERLAP = 0.2  # intersection over union of one object's boxes in two frames
_OTHER_CLASS = 0.5  # subtracted from the overlap: classes flicker, but a rider is not the bicycle
_STANDING = 0.8  # weight of the overlap with the last place of a box; that with its expected place has 1
_NEW_VELOCITY = 0.5  # weight of the latest difference in the smoothed velocity
_MISSED_FRAMES = 5  # an object that is unseen for more frames than this, and for longer than the next, is gone
_MISSED_NS = 1_000_000_000
_MOST_MISSED_FRAMES = 120  # where stamps stand still, it is gone after so many frames


@dataclass(slots=True, kw_only=True)
class _Track:
    """One object that is followed.

    Attributes:
        corners: float64 [4]: left, top, right and bottom when the box was last computed, in pixels.
        velocity: float64 [4]: of the centre (x, y, x, y), in pixels per nanosecond.
        computed_ns: stamp of the frame for which the box was last computed.
        seen_ns: stamp of the last frame with the object, held answers included.
        missed: frames since ``seen_ns``.
    """

    number: int
    class_id: int
    corners: NDArray[np.float64]
    velocity: NDArray[np.float64]
    computed_ns: int
    seen_ns: int
    missed: int = 0

    def expected(self, stamp_ns: int) -> NDArray[np.float64]:
        """Return where the box should be in a later frame, float64 [4], as ``corners``."""
        return self.corners + self.velocity * (stamp_ns - self.computed_ns)

    def is_gone(self, stamp_ns: int) -> bool:
        """Tell whether the object is given up."""
        if stamp_ns == self.seen_ns:
            return self.missed > _MOST_MISSED_FRAMES
        return self.missed > _MISSED_FRAMES and stamp_ns - self.seen_ns > _MISSED_NS

    def see(self, box: Box, corners: NDArray[np.float64], stamp_ns: int) -> None:
        """Update position, velocity and class with a box that was computed for this frame."""
        passed_ns = stamp_ns - self.computed_ns
        if passed_ns > 0:
            shift = (corners + np.roll(corners, 2) - self.corners - np.roll(self.corners, 2)) / 2
            self.velocity += _NEW_VELOCITY * (shift / passed_ns - self.velocity)
        self.class_id, self.corners, self.computed_ns = box.class_id, corners, stamp_ns


class BoxTracks:
    """Remembers the objects of one camera. Numbers begin with 1, and none is given twice."""

    def __init__(self) -> None:
        self._tracks: list[_Track] = []
        self._last_number = 0
        self._last_ns = 0
        self._image_size = (0, 0)

    def number(
        self, boxes: Sequence[Box], stamp_ns: int, image_size: tuple[int, int], *, is_held: bool
    ) -> tuple[Box, ...]:
        """Return the boxes, each with the number of its object in ``track``.

        Args:
            boxes: those found in the frame.
            stamp_ns: the frame's stamp; where stamps go backwards, all objects are new.
            image_size: (height, width) of the frame; where that changes, all objects are new.
            is_held: whether the boxes belong to an earlier frame, and so say nothing about how fast objects move.
        """
        if stamp_ns < self._last_ns or image_size != self._image_size:
            self.forget()
        self._last_ns, self._image_size = stamp_ns, image_size
        corners = _corners(boxes)
        numbered = list(boxes)
        assigned = self._assigned(boxes, corners, stamp_ns, is_held=is_held)
        for track in self._tracks:
            track.missed += 1
        for index, box in enumerate(boxes):
            track = assigned.get(index) or self._new(box, corners[index], stamp_ns)
            if not is_held:
                track.see(box, corners[index], stamp_ns)
            track.seen_ns, track.missed = stamp_ns, 0
            numbered[index] = replace(box, track=track.number)
        self._tracks = [track for track in self._tracks if not track.is_gone(stamp_ns)]
        return tuple(numbered)

    def forget(self) -> None:
        """Forget all objects: each one seen from now on is new."""
        self._tracks = []

    def _new(self, box: Box, corners: NDArray[np.float64], stamp_ns: int) -> _Track:
        self._last_number += 1
        track = _Track(
            number=self._last_number,
            class_id=box.class_id,
            corners=corners,
            velocity=np.zeros(4),
            computed_ns=stamp_ns,
            seen_ns=stamp_ns,
        )
        self._tracks.append(track)
        return track

    def _assigned(
        self, boxes: Sequence[Box], corners: NDArray[np.float64], stamp_ns: int, *, is_held: bool
    ) -> dict[int, _Track]:
        """Return the tracks that continue, by the index of the box that each has in this frame."""
        if not boxes or not self._tracks:
            return {}
        likeness = _overlap(np.array([track.corners for track in self._tracks]), corners)
        if not is_held:
            expected = np.array([track.expected(stamp_ns) for track in self._tracks])
            likeness = np.maximum(_STANDING * likeness, _overlap(expected, corners))
        classes = np.array([box.class_id for box in boxes])
        likeness -= _OTHER_CLASS * (np.array([track.class_id for track in self._tracks])[:, None] != classes)
        likeness[likeness < _LEAST_OVERLAP] = 0.0  # so that pairs that do not match add nothing to the sum
        from scipy.optimize import linear_sum_assignment  # here: slow to import, rarely needed

        pairs = zip(*linear_sum_assignment(likeness, maximize=True), strict=True)
        return {int(index): self._tracks[row] for row, index in pairs if likeness[row, index]}


def _corners(boxes: Sequence[Box]) -> NDArray[np.float64]:
    """Return float64 [boxes, 4]: left, top, right, bottom."""
    sides = [(box.x, box.y, box.x + box.width, box.y + box.height) for box in boxes]
    return np.array(sides, np.float64).reshape(-1, 4)


def _overlap(these: NDArray[np.float64], those: NDArray[np.float64]) -> NDArray[np.float64]:
    """Compute the intersection over union, float64 [these, those]; 0 where both boxes are empty."""
    sides = np.minimum(these[:, None, 2:], those[:, 2:]) - np.maximum(these[:, None, :2], those[:, :2])
    shared = sides.clip(min=0.0).prod(axis=2)
    areas = [(boxes[:, 2:] - boxes[:, :2]).clip(min=0.0).prod(axis=1) for boxes in (these, those)]
    union = areas[0][:, None] + areas[1] - shared
    return np.divide(shared, union, out=np.zeros_like(shared), where=union > 0)
