# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""A built-in scene: the virtual camera's frames, and the truth about each of them."""

from __future__ import annotations

from collections.abc import Iterator

import cv2
import numpy as np
from numpy.typing import NDArray

from cacheinf_ros.cache_map import Motion
from cacheinf_ros.errors import SourceError
from cacheinf_ros.heap import give_memory_back
from cacheinf_ros.sources.frame import Frame
from cacheinf_ros.sources.objects import TrueObject
from cacheinf_ros.sources.scenes.camera_path import CameraPath
from cacheinf_ros.sources.scenes.near import NearPlane
from cacheinf_ros.sources.scenes.photographs import load_photograph, load_photographs
from cacheinf_ros.sources.scenes.scene_config import MotionPreset, SceneConfig
from cacheinf_ros.sources.scenes.sensor import Sensor
from cacheinf_ros.sources.scenes.sprites import OBJECT_LABELS
from cacheinf_ros.sources.scenes.tracks import make_tracks
from cacheinf_ros.sources.scenes.truth import SceneTruth, changed_pixels, owner_map, visible_objects
from cacheinf_ros.sources.scenes.world import build_world


class Scene:
    """A source whose frames can be made in any order, each with its ground truth.

    Raises:
        SourceError: the photographs are not installed, or there is none of this name.
    """

    def __init__(self, config: SceneConfig) -> None:
        rng = np.random.default_rng(config.seed)
        photographs = load_photographs(config.gallery)
        background = (load_photograph(config.photograph),) if config.photograph else photographs
        self.config = config
        self.name = f"scene:{config.preset.value}"
        self.fps: float = config.fps
        self.length: int | None = config.frames
        self._world = build_world(background, config.size, rng)
        self._origin = rng.integers(0, self._world.shape[:2])[::-1].astype(np.float64)
        self._path = CameraPath(preset=config.preset, image_size=config.size, phases=rng.uniform(0, 2 * np.pi, (6, 3)))
        enter_s = config.enter / config.fps if config.enter else None
        self._tracks = make_tracks(config.objects, photographs, config.size, rng, enter_s)
        self._sensor = Sensor(config, rng)
        self._near: NearPlane | None = None
        if config.preset is MotionPreset.PARALLAX:
            self._near = NearPlane(build_world(background, config.size, rng))
        self._last_view: tuple[NDArray[np.float64], NDArray[np.uint8]] | None = None
        del photographs, background
        give_memory_back()

    def __iter__(self) -> Iterator[Frame]:
        """Yield all frames from the start."""
        return (self.frame(index) for index in range(self.config.frames))

    def frame(self, index: int) -> Frame:
        """Return the frame at ``index``: background, objects on it, brightness and noise."""
        seconds = self._seconds(index)
        image = self.background(index).copy()
        for track in self._tracks:
            in_frame, in_sprite = track.covers(seconds)
            under = image[in_frame]
            under[:] = np.rint(under + track.sprite.alpha[in_sprite] * (track.sprite.colour[in_sprite] - under))
        exposed = self._sensor.expose(image, index, seconds)
        return Frame(index=index, stamp_ns=round(seconds * 1e9), image=exposed)

    def truth(self, index: int) -> SceneTruth:
        """Return the truth about the frame at ``index``."""
        seconds = self._seconds(index)
        owners = owner_map(self._tracks, seconds, self.config.size)
        objects = visible_objects(self._tracks, seconds, owners)
        if index == 0:
            return SceneTruth(motion=Motion.none(), objects=objects, changed=np.ones(self.config.size, np.bool_))
        before = self._seconds(index - 1)
        motion = Motion(matrix=self._view(index) @ np.linalg.inv(self._view(index - 1)))
        earlier = owner_map(self._tracks, before, self.config.size) > 0
        changed = changed_pixels(earlier | self._is_near(index - 1), (owners > 0) | self._is_near(index), motion)
        return SceneTruth(motion=motion, objects=objects, changed=changed)

    def objects(self, index: int) -> tuple[TrueObject, ...]:
        """Implement :meth:`cacheinf_ros.sources.objects.KnowsObjects.objects`."""
        seconds = self._seconds(index)
        found = visible_objects(self._tracks, seconds, owner_map(self._tracks, seconds, self.config.size))
        return tuple(
            TrueObject(label=OBJECT_LABELS[each.class_id], x=each.x, y=each.y, width=each.width, height=each.height)
            for each in found
        )

    def classes(self) -> tuple[str, ...]:
        """Implement :meth:`cacheinf_ros.sources.objects.KnowsObjects.classes`."""
        return OBJECT_LABELS

    def background(self, index: int) -> NDArray[np.uint8]:
        """Return the frame without objects, brightness change and noise, uint8 [height, width, 3]; read-only."""
        view = self._view(index)
        if self._last_view is None or not np.array_equal(self._last_view[0], view):
            image = self._photograph(np.asarray(np.linalg.inv(view), np.float64))
            if self._near is not None:
                self._near.cover(image, self._near.passed(view[0, 2]))
            self._last_view = view, image
        return self._last_view[1]

    def _is_near(self, index: int) -> NDArray[np.bool_]:
        """Return the pixels that do not show the far plane, apart from objects, bool [height, width]."""
        if self._near is None:
            return np.zeros(self.config.size, np.bool_)
        return self._near.mask(self._near.passed(self._view(index)[0, 2]), self.config.size)

    def _view(self, index: int) -> NDArray[np.float64]:
        return self._path.view(self._seconds(index) * self.config.speed)

    def _photograph(self, to_first_view: NDArray[np.float64]) -> NDArray[np.uint8]:
        """Return the picture at a view, given the matrix from its pixels to those of the first view."""
        height, width = self.config.size
        to_world = np.eye(3)
        to_world[:2, 2] = self._origin
        taken = cv2.warpPerspective(
            self._world,
            to_world @ to_first_view,
            (width, height),
            flags=cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP,
            borderMode=cv2.BORDER_WRAP,
        )
        return np.asarray(taken, np.uint8)

    def _seconds(self, index: int) -> float:
        if not 0 <= index < self.config.frames:
            raise SourceError(f"{self.name} has frames 0 to {self.config.frames - 1}, not {index}; raise frames=")
        return index / self.config.fps
