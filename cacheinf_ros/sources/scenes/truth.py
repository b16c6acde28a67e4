# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The truth about a frame of a built-in scene."""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from cacheinf_ros.cache_map import Motion
from cacheinf_ros.sources.scenes.tracks import Track

# no detector can be expected to find an object that is mostly hidden
_VISIBLE_SHARE = 0.5


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SceneObject:
    """A moving object of which at least half is visible.

    Attributes:
        class_id: index into ``OBJECT_LABELS``.
        x, y, width, height: box of the object within the frame, hidden parts included, in pixels.
        mask: bool [frame height, frame width], the object's visible pixels.
    """

    class_id: int
    x: int
    y: int
    width: int
    height: int
    mask: NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SceneTruth:
    """The truth about one frame.

    Attributes:
        motion: motion of the background, previous frame -> this frame; none for the first frame.
        objects: the moving objects in view.
        changed: bool [height, width], pixels that do not show moved background of the previous frame. Changes of
            brightness and noise do not count. In the first frame all pixels have changed.
    """

    motion: Motion
    objects: tuple[SceneObject, ...]
    changed: NDArray[np.bool_]


def owner_map(tracks: tuple[Track, ...], seconds: float, frame_size: tuple[int, int]) -> NDArray[np.int32]:
    """Return the track that each pixel shows, int32 [height, width]: 0 for the background, else 1 + its index."""
    owners = np.zeros(frame_size, np.int32)
    for number, track in enumerate(tracks, start=1):
        in_frame, in_sprite = track.covers(seconds)
        owners[in_frame][track.sprite.mask[in_sprite]] = number
    return owners


def visible_objects(tracks: tuple[Track, ...], seconds: float, owners: NDArray[np.int32]) -> tuple[SceneObject, ...]:
    """Return the objects of which ``owners`` shows at least half."""
    found = []
    for number, track in enumerate(tracks, start=1):
        visible, whole = owners == number, track.sprite.mask
        if visible.sum() >= _VISIBLE_SHARE * whole.sum():
            (rows, columns), _ = track.covers(seconds)
            box = {"x": columns.start, "y": rows.start}
            sides = {"width": columns.stop - columns.start, "height": rows.stop - rows.start}
            found.append(SceneObject(class_id=track.sprite.class_id, **box, **sides, mask=visible))
    return tuple(found)


def changed_pixels(previous: NDArray[np.bool_], current: NDArray[np.bool_], motion: Motion) -> NDArray[np.bool_]:
    """Return pixels that show an object, showed one before, or were out of view before, bool [height, width].

    Args:
        previous, current: bool [height, width], pixels of objects in either frame.
        motion: motion of the background, previous -> current.
    """
    height, width = previous.shape
    # an interpolated pixel depends on all of its neighbours: any weight of a changed one counts
    spread = cv2.warpPerspective(
        previous.astype(np.float32), motion.matrix, (width, height), flags=cv2.INTER_LINEAR, borderValue=1.0
    )
    return np.asarray((spread > 0) | current)
