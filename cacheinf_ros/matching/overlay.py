# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Draw a cache map over an image: what is reused, what is recomputed, and how everything moved."""

from __future__ import annotations

from typing import TypeAlias

import cv2
import numpy as np
from numpy.typing import NDArray

from cacheinf_ros.cache_map import CacheMap
from cacheinf_ros.errors import MatchingError
from cacheinf_ros.geometry import check_image

Colour: TypeAlias = tuple[int, int, int]  # BGR

REUSED: Colour = (80, 160, 0)
RECOMPUTED: Colour = (0, 140, 255)
ARROW: Colour = (255, 0, 255)
TEXT: Colour = (255, 255, 255)
SHADOW: Colour = (0, 0, 0)

TINT = 0.45
"""The opacity of the tint over reused area, 0 to 1."""

ARROW_GAIN = 8
"""How many times as long as the motion of one frame the arrow is, so that it can be seen."""


def draw_overlay(image: NDArray[np.uint8], cache_map: CacheMap) -> NDArray[np.uint8]:
    """Tint the reused area, outline the recomputed one, draw the motion of the middle, write the reuse ratio.

    Args:
        image: uint8 [height, width] or [height, width, 1 to 4 channels]: grey, BGR or BGRA.
        cache_map: map of an image of this size; for another, :class:`MatchingError` is raised.

    Returns:
        A new uint8 [height, width, 3], BGR.
    """
    check_image(image)
    if image.shape[:2] != cache_map.image_size:
        raise MatchingError(f"a map of {cache_map.image_size} does not fit an image of {image.shape[:2]}")
    picture = _in_colour(image)
    _tint(picture, cache_map)
    _draw_motion(picture, cache_map)
    _write(picture, _caption(cache_map))
    return picture


def _in_colour(image: NDArray[np.uint8]) -> NDArray[np.uint8]:
    channels = 1 if image.ndim == 2 else image.shape[2]
    if channels == 3:
        return np.array(image, order="C")
    picture = np.empty((*image.shape[:2], 3), np.uint8)
    picture[...] = image[..., :3] if channels == 4 else image.reshape(*image.shape[:2], channels)[..., :1]
    return picture


def _tint(picture: NDArray[np.uint8], cache_map: CacheMap) -> None:
    mask = cache_map.reusable_mask.view(np.uint8)
    colour = np.empty_like(picture)
    colour[:] = REUSED
    cv2.copyTo(cv2.addWeighted(picture, 1 - TINT, colour, TINT, 0), mask, picture)
    outlines, _ = cv2.findContours(1 - mask, cv2.RETR_CCOMP, cv2.CHAIN_APPROX_SIMPLE)
    cv2.drawContours(picture, outlines, -1, RECOMPUTED, 1)


def _draw_motion(picture: NDArray[np.uint8], cache_map: CacheMap) -> None:
    if cache_map.motion.is_none:
        return
    dx, dy = _motion_of_middle(cache_map)
    x, y = picture.shape[1] // 2, picture.shape[0] // 2
    tip = (round(x + ARROW_GAIN * dx), round(y + ARROW_GAIN * dy))
    cv2.arrowedLine(picture, (x, y), tip, ARROW, 2, cv2.LINE_AA, tipLength=0.25)


def _motion_of_middle(cache_map: CacheMap) -> tuple[float, float]:
    """Return (dx, dy) in pixels: the motion of what was in the middle of the reference."""
    height, width = cache_map.image_size
    x, y, scale = cache_map.motion.matrix @ (width / 2, height / 2, 1.0)
    return float(x / scale - width / 2), float(y / scale - height / 2)


def _caption(cache_map: CacheMap) -> str:
    if cache_map.reason:
        return f"reuse 0 %: {cache_map.reason}"
    dx, dy = _motion_of_middle(cache_map)
    return f"reuse {100 * cache_map.reuse_ratio:.0f} %  motion {dx:+.0f} {dy:+.0f} px"


def _write(picture: NDArray[np.uint8], text: str) -> None:
    size = min(0.6, picture.shape[1] / 600)
    for colour, thickness in ((SHADOW, 3), (TEXT, 1)):
        cv2.putText(picture, text, (6, 8 + round(24 * size)), cv2.FONT_HERSHEY_SIMPLEX, size, colour, thickness,
                    cv2.LINE_AA)  # fmt: skip
