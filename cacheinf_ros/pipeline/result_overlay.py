# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Draws the overlay of results: what was reused and recomputed, and what the model says."""

from __future__ import annotations

from collections.abc import Sequence

import cv2
import numpy as np
from numpy.typing import NDArray

from cacheinf_ros.cache_map import CacheMap
from cacheinf_ros.engine import Box, Decoded
from cacheinf_ros.engine.decisions import SEEN_SCORE
from cacheinf_ros.engine.decoders import WHOLE, Region
from cacheinf_ros.matching import draw_overlay

_BOX = (255, 160, 0)  # BGR
_OUTLINE = (60, 200, 60)
_REGION = (255, 255, 255)
_KEY_POINT = (0, 80, 255)
_LINE_HEIGHT = 18
_BLOCK = 10
_MOST_INSTANCES = 255


def draw_result(
    image: NDArray[np.uint8],
    cache_map: CacheMap | None,
    lines: list[str],
    decoded: Decoded | None,
    region: Region = WHOLE,
    pictures: int = 1,
) -> NDArray[np.uint8]:
    """Return a copy of the frame with its map, the objects found and lines of text at the bottom.

    Args:
        image: uint8 [height, width, 3], BGR.
        cache_map: what was reused; None, or a map of another size: nothing.
        lines: the text lines.
        decoded: boxes to draw, with the outlines of their masks and their key points.
        region: the region in which boxes are reported; it is outlined where it is not the whole picture.
        pictures: how many pictures the frame shows side by side; the region is one of the left one.
    """
    size = (image.shape[0], image.shape[1])
    if cache_map is None or cache_map.image_size != size:
        cache_map = CacheMap.nothing(size, _BLOCK, "nothing was reused")
    picture = draw_overlay(image, cache_map)
    for box in decoded.boxes if decoded else ():
        corner = (round(box.x), round(box.y))
        cv2.rectangle(picture, corner, (round(box.x + box.width), round(box.y + box.height)), _BOX, 2)
        _draw_shape(picture, box)
        label = f"#{box.track} {box.name}" if box.track else box.name
        _write(picture, f"{label} {box.score:.2f}", (corner[0], max(12, corner[1] - 4)))
    if region != WHOLE:
        _draw_region(picture[:, : size[1] // pictures], region)
    for row, line in enumerate(reversed(lines)):
        _write(picture, line, (6, size[0] - 8 - _LINE_HEIGHT * row))
    return picture


def draw_instances(size: tuple[int, int], boxes: Sequence[Box]) -> NDArray[np.uint8]:
    """Draw the masks, uint8 [height, width]: 0 for no object, else its box's number from 1; the best lie on top."""
    picture = np.zeros(size, np.uint8)
    for number, box in reversed(list(enumerate(boxes[:_MOST_INSTANCES], 1))):
        cv2.fillPoly(picture, [np.round(outline).astype(np.int32) for outline in box.outlines], number)
    return picture


def _draw_region(picture: NDArray[np.uint8], region: Region) -> None:
    height, width = picture.shape[:2]
    left, top, right, bottom = region[0], region[1], region[0] + region[2], region[1] + region[3]
    corners = [(round(x * width), round(y * height)) for x, y in ((left, top), (right, bottom))]
    cv2.rectangle(picture, corners[0], corners[1], _REGION, 1)


def _draw_shape(picture: NDArray[np.uint8], box: Box) -> None:
    polygons = [np.round(outline).astype(np.int32) for outline in box.outlines]
    cv2.polylines(picture, polygons, isClosed=True, color=_OUTLINE, thickness=2)
    for point in box.key_points:
        if point.score >= SEEN_SCORE:
            cv2.circle(picture, (round(point.x), round(point.y)), 3, _KEY_POINT, cv2.FILLED)


def _write(picture: NDArray[np.uint8], text: str, place: tuple[int, int]) -> None:
    for colour, thickness in (((0, 0, 0), 3), ((255, 255, 255), 1)):
        cv2.putText(picture, text, place, cv2.FONT_HERSHEY_SIMPLEX, 0.45, colour, thickness, cv2.LINE_AA)
