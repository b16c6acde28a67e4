# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Where the moving objects are: straight paths that bounce off the edges of the picture."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cacheinf_ros.sources.scenes.sprites import OBJECT_LABELS, Sprite, make_sprite

_SIDES = (28, 64)
_PIXELS_PER_SECOND = (30.0, 110.0)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Track:
    """One object and its path in the picture, whatever the camera does: it is always whole in view.

    Attributes:
        sprite: what it looks like.
        start: float64 [2], (x, y) of its left upper corner at time 0, in pixels.
        velocity: float64 [2], pixels per second.
        room: float64 [2], largest (x, y) of the corner.
    """

    sprite: Sprite
    start: NDArray[np.float64]
    velocity: NDArray[np.float64]
    room: NDArray[np.float64]

    def position(self, seconds: float) -> tuple[int, int]:
        """(x, y) of the left upper corner, in whole pixels."""
        travelled = (self.start + self.velocity * seconds) % (2 * self.room)
        x, y = np.rint(np.minimum(travelled, 2 * self.room - travelled)).astype(int)
        return int(x), int(y)


def make_tracks(
    count: int, photographs: tuple[NDArray[np.uint8], ...], frame_size: tuple[int, int], rng: np.random.Generator
) -> tuple[Track, ...]:
    """Objects with random class, size, texture and path; classes are dealt out evenly."""
    classes = rng.permutation(np.arange(count) % len(OBJECT_LABELS))
    return tuple(_make_track(int(class_id), photographs, frame_size, rng) for class_id in classes)


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
