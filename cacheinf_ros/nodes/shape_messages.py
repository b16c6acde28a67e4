# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Conversions between key points and outlines of boxes and the fields of a result message: flat arrays with counts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

from cacheinf_ros import msg
from cacheinf_ros.engine import Box, KeyPoint

Outlines = tuple[tuple[tuple[float, float], ...], ...]


def shape_fields(boxes: Sequence[Box]) -> dict[str, Any]:
    """Return the fields of a result message that hold the key points and outlines of boxes."""
    points = [point for box in boxes for point in box.key_points]
    outlines = [outline for box in boxes for outline in box.outlines]
    corners = [corner for outline in outlines for corner in outline]
    return {
        "box_key_points": [len(box.key_points) for box in boxes] if points else [],
        "key_point_x": [point.x for point in points],
        "key_point_y": [point.y for point in points],
        "key_point_scores": [point.score for point in points],
        "box_outlines": [len(box.outlines) for box in boxes] if outlines else [],
        "outline_corners": [len(outline) for outline in outlines],
        "corner_x": [x for x, _ in corners],
        "corner_y": [y for _, y in corners],
    }


def shapes_from(message: msg.InferenceResult) -> Iterator[tuple[tuple[KeyPoint, ...], Outlines]]:
    """Yield the key points and outlines of each box."""
    none = [0] * len(message.box_x)
    points = map(KeyPoint, message.key_point_x, message.key_point_y, message.key_point_scores)
    corners = zip(message.corner_x, message.corner_y, strict=True)
    sizes = iter(message.outline_corners)
    for key_points, outlines in zip(message.box_key_points or none, message.box_outlines or none, strict=True):
        yield (
            tuple(islice(points, key_points)),
            tuple(tuple(islice(corners, size)) for size in islice(sizes, outlines)),
        )
