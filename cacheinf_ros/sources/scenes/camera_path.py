# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The path of the virtual camera: the exact motion of the picture from the first frame to any other."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cacheinf_ros.sources.scenes.scene_config import MotionPreset

_Matrix = NDArray[np.float64]
_PAN_PIXELS_PER_SECOND = 90.0
_PARALLAX_PIXELS_PER_SECOND = 60.0
_PERIOD_SECONDS = 8.0
_TURN_RADIANS = np.radians(12.0)
_APPROACH_LOG_SCALE = 0.3
# amplitudes of a hand-held camera: x, y (pixels), roll (radians), log scale, perspective in x and y (1 / pixels)
_HAND = np.array([5.0, 5.0, 0.007, 0.003, 4e-6, 4e-6])
_HAND_HERTZ = np.array([0.4, 0.9, 1.7])


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CameraPath:
    """The motion of a camera over a plane.

    Attributes:
        preset: kind of motion.
        image_size: (height, width) of a frame, in pixels.
        phases: float64 [6, 3], in radians; they differ by seed.
    """

    preset: MotionPreset
    image_size: tuple[int, int]
    phases: NDArray[np.float64]

    def view(self, seconds: float) -> _Matrix:
        """Return the matrix, float64 [3, 3], from pixels of the first view to those ``seconds`` later."""
        return _VIEWS[self.preset](self, seconds)


def _fixed(path: CameraPath, seconds: float) -> _Matrix:
    return np.eye(3)


def _pan(path: CameraPath, seconds: float) -> _Matrix:
    return _translation(-_PAN_PIXELS_PER_SECOND * seconds, 0.0)


def _parallax(path: CameraPath, seconds: float) -> _Matrix:
    """Return the motion of the far plane; :mod:`.near` has that of the near one."""
    return _translation(-_PARALLAX_PIXELS_PER_SECOND * seconds, 0.0)


def _handheld(path: CameraPath, seconds: float) -> _Matrix:
    """Return a motion whose degrees of freedom are each a sum of three slow oscillations."""
    waves = np.sin(2 * np.pi * _HAND_HERTZ * seconds + path.phases) / np.array([1.0, 2.0, 4.0])
    x, y, roll, log_scale, px, py = _HAND * waves.sum(axis=1)
    cosine, sine = np.exp(log_scale) * np.cos(roll), np.exp(log_scale) * np.sin(roll)
    return _about_centre(path, np.array([[cosine, -sine, x], [sine, cosine, y], [px, py, 1.0]]))


def _forward(path: CameraPath, seconds: float) -> _Matrix:
    """Return a motion towards the plane and back again, about a point near the centre of the picture."""
    scale = np.exp(_APPROACH_LOG_SCALE * (1 - np.cos(2 * np.pi * seconds / _PERIOD_SECONDS)))
    offset = 0.1 * min(path.image_size) * np.sin(path.phases[:2, 0])
    target = _translation(*offset)
    return _about_centre(path, target @ np.diag([scale, scale, 1.0]) @ np.linalg.inv(target))


def _turn(path: CameraPath, seconds: float) -> _Matrix:
    """Return the rotation about the vertical axis: K R K^-1, with a focal length of one image width."""
    yaw = _TURN_RADIANS * np.sin(2 * np.pi * seconds / _PERIOD_SECONDS)
    cosine, sine = np.cos(yaw), np.sin(yaw)
    focal = float(path.image_size[1])
    camera = np.diag([focal, focal, 1.0])
    rotation = np.array([[cosine, 0.0, -sine], [0.0, 1.0, 0.0], [sine, 0.0, cosine]])
    return _about_centre(path, camera @ rotation @ np.linalg.inv(camera))


_VIEWS: dict[MotionPreset, Callable[[CameraPath, float], _Matrix]] = {
    MotionPreset.FIXED: _fixed,
    MotionPreset.PAN: _pan,
    MotionPreset.HANDHELD: _handheld,
    MotionPreset.FORWARD: _forward,
    MotionPreset.TURN: _turn,
    MotionPreset.PARALLAX: _parallax,
}


def _translation(dx: float, dy: float) -> _Matrix:
    return np.array([[1.0, 0.0, dx], [0.0, 1.0, dy], [0.0, 0.0, 1.0]])


def _about_centre(path: CameraPath, matrix: _Matrix) -> _Matrix:
    """Apply a motion with the picture's centre as origin."""
    height, width = path.image_size
    centre = _translation((width - 1) / 2, (height - 1) / 2)
    moved = centre @ matrix @ np.linalg.inv(centre)
    return np.asarray(moved / moved[2, 2])
