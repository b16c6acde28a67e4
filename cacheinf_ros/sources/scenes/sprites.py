# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The moving objects of a scene: textured shapes cut from photographs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

OBJECT_LABELS = ("disc", "square", "triangle", "star", "cross")
_OVERSAMPLING = 4
_RIM_PIXELS = 2
_HUE_STEP = 180 // len(OBJECT_LABELS)
_HUE_JITTER = 8


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Sprite:
    """The picture of an object, with transparency.

    Attributes:
        class_id: index into ``OBJECT_LABELS``.
        colour: float32 [height, width, 3], BGR.
        alpha: float32 [height, width, 1], 0 outside to 1 inside; every edge of the array touches the shape.
    """

    class_id: int
    colour: NDArray[np.float32]
    alpha: NDArray[np.float32]

    @property
    def mask(self) -> NDArray[np.bool_]:
        """The pixels that the sprite changes at all, bool [height, width]."""
        return self.alpha[:, :, 0] > 0


def make_sprite(class_id: int, side: int, photograph: NDArray[np.uint8], rng: np.random.Generator) -> Sprite:
    """Make a shape of ``side`` pixels: texture of a random patch, a colour near its class's, a bright rim."""
    alpha = _shape(class_id, side)
    colour = _coloured(class_id, _patch(photograph, side, rng), rng)
    inside = cv2.erode((alpha > 0.5).astype(np.uint8), np.ones((3, 3), np.uint8), iterations=_RIM_PIXELS, borderValue=0)
    colour[inside == 0] = rng.integers(215, 256)
    rows, columns = np.flatnonzero(alpha.any(axis=1)), np.flatnonzero(alpha.any(axis=0))
    tight = np.s_[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]
    return Sprite(class_id=class_id, colour=colour[tight].astype(np.float32), alpha=alpha[tight][:, :, None])


def _shape(class_id: int, side: int) -> NDArray[np.float32]:
    """Draw a shape with smooth edges, float32 [side, side]."""
    big = np.zeros((side * _OVERSAMPLING,) * 2, np.uint8)
    corners = _OUTLINES[OBJECT_LABELS[class_id]]() * (side * _OVERSAMPLING / 2 - 1) + side * _OVERSAMPLING / 2
    cv2.fillPoly(big, [np.rint(corners).astype(np.int32)], 255)
    small = cv2.resize(big, (side, side), interpolation=cv2.INTER_AREA)
    return np.asarray(small, np.float32) / np.float32(255)


def _round(points: int, *, inner: float = 1.0) -> NDArray[np.float64]:
    """Return corners on a unit circle, with every second one at radius ``inner``."""
    angles = -np.pi / 2 + np.arange(points) * 2 * np.pi / points
    radii = np.where(np.arange(points) % 2 == 0, 1.0, inner)
    return np.stack([radii * np.cos(angles), radii * np.sin(angles)], axis=1)


def _cross() -> NDArray[np.float64]:
    quarter = np.array([[-0.33, -1], [0.33, -1], [0.33, -0.33]])
    turns = [np.linalg.matrix_power(np.array([[0, -1], [1, 0]]), k) for k in range(4)]
    return np.concatenate([quarter @ turn.T for turn in turns])


_OUTLINES: dict[str, Callable[[], NDArray[np.float64]]] = {
    "disc": lambda: _round(48),
    "square": lambda: np.array([[-1.0, -1.0], [1.0, -1.0], [1.0, 1.0], [-1.0, 1.0]]),
    "triangle": lambda: np.array([[0.0, -1.0], [1.0, 1.0], [-1.0, 1.0]]),
    "star": lambda: _round(10, inner=0.45),
    "cross": _cross,
}


def _patch(photograph: NDArray[np.uint8], side: int, rng: np.random.Generator) -> NDArray[np.uint8]:
    """Return the brightness of a random square of the photograph, uint8 [side, side]."""
    top, left = (rng.integers(0, length - side + 1) for length in photograph.shape[:2])
    return np.asarray(cv2.cvtColor(photograph[top : top + side, left : left + side], cv2.COLOR_BGR2GRAY), np.uint8)


def _coloured(class_id: int, texture: NDArray[np.uint8], rng: np.random.Generator) -> NDArray[np.uint8]:
    """Colour a texture by its class, with random variation; returns uint8 [side, side, 3], BGR."""
    hue = (class_id * _HUE_STEP + rng.integers(-_HUE_JITTER, _HUE_JITTER + 1)) % 180
    stretched = cv2.normalize(texture, np.empty_like(texture), 90, 255, cv2.NORM_MINMAX)
    flat = np.full_like(texture, hue), np.full_like(texture, rng.integers(150, 256))
    return np.asarray(cv2.cvtColor(np.dstack([*flat, stretched]), cv2.COLOR_HSV2BGR), np.uint8)
