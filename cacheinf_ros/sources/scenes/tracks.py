# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The paths of moving objects: straight lines that bounce off the edges of the picture, and may begin outside it."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from cacheinf_ros.sources.scenes.sprites import OBJECT_LABELS, Sprite, make_sprite

_SIDES = (28, 64)
_PIXELS_PER_SECOND = (30.0, 110.0)
_BETWEEN_S = 0.5  # interval at which objects come in
_INWARDS = 0.8  # least share of the speed of incoming objects that is horizontal


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Track:
    """An object and its path in the picture, independent of the camera; once it is in, it is always entirely in view.

    Attributes:
        sprite: the object's picture.
        start: float64 [2], (x, y) of the upper left corner at time 0, in pixels.
        velocity: float64 [2], pixels per second.
        room: float64 [2], largest (x, y) of the corner.
        enters_s: when the object comes in from the left or right, seconds; None: it is there from the start.
    """

    sprite: Sprite
    start: NDArray[np.float64]
    velocity: NDArray[np.float64]
    room: NDArray[np.float64]
    enters_s: float | None = None

    def position(self, seconds: float) -> tuple[int, int]:
        """Return (x, y) of the upper left corner, in whole pixels; outside the picture before the object comes in."""
        if self.enters_s is None:
            return self._within(self.start + self.velocity * seconds)
        x, y = self._within(self.start + self.velocity * [0.0, max(0.0, seconds - self.enters_s)])
        width, speed = self.sprite.mask.shape[1], abs(self.velocity[0])
        inside = speed * (seconds - self.enters_s) - width  # from the side that it comes from to its outer edge
        x = round(max(inside, -width)) if inside < 0 else self._within(np.array([inside, 0.0]))[0]
        return (x, y) if self.velocity[0] >= 0 else (int(self.room[0]) - x, y)

    def covers(self, seconds: float) -> tuple[tuple[slice, slice], tuple[slice, slice]]:
        """Return the (rows, columns) of the frame that the object covers, and those of the sprite; may be empty."""
        x, y = self.position(seconds)
        height, width = self.sprite.mask.shape
        frame_width = int(self.room[0]) + width
        left, right = max(x, 0), max(min(x + width, frame_width), 0)
        rows = slice(y, y + height)
        return (rows, slice(min(left, right), right)), (slice(0, height), slice(min(left, right) - x, right - x))

    def _within(self, place: NDArray[np.float64]) -> tuple[int, int]:
        travelled = place % (2 * self.room)
        x, y = np.rint(np.minimum(travelled, 2 * self.room - travelled)).astype(int)
        return int(x), int(y)


def make_tracks(
    count: int,
    photographs: tuple[NDArray[np.uint8], ...],
    frame_size: tuple[int, int],
    rng: np.random.Generator,
    enter_s: float | None = None,
) -> tuple[Track, ...]:
    """Make objects with random class, size, texture and path; classes are dealt out evenly.

    Args:
        enter_s: when the first object comes in, seconds; None: all are there from the start.
    """
    classes = rng.permutation(np.arange(count) % len(OBJECT_LABELS))
    tracks = tuple(_make_track(int(class_id), photographs, frame_size, rng) for class_id in classes)
    if enter_s is None:
        return tracks
    return tuple(
        replace(track, velocity=_sideways(track.velocity), enters_s=enter_s + number * _BETWEEN_S)
        for number, track in enumerate(tracks)
    )


def _sideways(velocity: NDArray[np.float64]) -> NDArray[np.float64]:
    """Turn a velocity towards the horizontal where that is needed for an object to come in soon."""
    speed = float(np.hypot(*velocity))
    x = float(np.copysign(max(abs(velocity[0]), _INWARDS * speed), velocity[0]))
    return np.array([x, np.copysign(np.sqrt(max(speed**2 - x**2, 0.0)), velocity[1])])


def _make_track(
    class_id: int, photographs: tuple[NDArray[np.uint8], ...], frame_size: tuple[int, int], rng: np.random.Generator
) -> Track:
    # in pictures too small for the usual sizes, an object takes at most a third
    low, high = (min(side, min(frame_size) // 3) for side in _SIDES)
    side = int(rng.integers(low, high + 1))
    sprite = make_sprite(class_id, side, photographs[rng.integers(len(photographs))], rng)
    room = np.array([frame_size[1] - sprite.mask.shape[1], frame_size[0] - sprite.mask.shape[0]], np.float64)
    angle = rng.uniform(0, 2 * np.pi)
    velocity = rng.uniform(*_PIXELS_PER_SECOND) * np.array([np.cos(angle), np.sin(angle)])
    return Track(sprite=sprite, start=rng.uniform(0, 1, 2) * room, velocity=velocity, room=room)
