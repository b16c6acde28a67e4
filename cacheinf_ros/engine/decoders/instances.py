# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The objects that a detector found, in pixels of the model's input, and their conversion to the frame."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cacheinf_ros.cache_map import Motion
from cacheinf_ros.engine.decoders.decoded import Box, KeyPoint
from cacheinf_ros.engine.decoders.suppress import Found
from cacheinf_ros.engine.following import move_boxes, move_points
from cacheinf_ros.engine.frame_placement import Placement

Outlines = tuple[NDArray[np.float32], ...]
"""Polygons [points, 2], (x, y), of the parts of one object."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Instances:
    """Objects, best first.

    Attributes:
        boxes: float32 [n, 4], (x, y, width, height).
        scores: float32 [n].
        classes: int64 [n].
        key_points: float32 [n, points, 3], (x, y, score), or None.
        outlines: the outlines of each object, or None.
    """

    boxes: NDArray[np.float32]
    scores: NDArray[np.float32]
    classes: NDArray[np.int64]
    key_points: NDArray[np.float32] | None = None
    outlines: tuple[Outlines, ...] | None = None

    @classmethod
    def of(cls, found: Found) -> Instances:
        """Take boxes that have no key points or outlines."""
        boxes, scores, classes = found
        return cls(boxes=boxes, scores=scores, classes=classes)

    def in_frame(self, place: Placement, motion: Motion, labels: tuple[str, ...]) -> tuple[Box, ...]:
        """Convert the objects to boxes in pixels of the frame.

        Args:
            place: where the frame lies in the input.
            motion: from the image that the outputs are for to the frame, in pixels of the input.
            labels: names of the classes.
        """
        moved = self.boxes if motion.is_none else move_boxes(self.boxes, motion)
        boxes = (moved if place.is_frame else place.boxes_in_frame(moved)).tolist()
        found = [
            Box(
                x=x,
                y=y,
                width=width,
                height=height,
                class_id=int(kind),
                name=label_of(labels, int(kind)),
                score=float(score),
                key_points=self._key_points(i, place, motion),
                outlines=self._outlines(i, place, motion),
            )
            for i, ((x, y, width, height), score, kind) in enumerate(zip(boxes, self.scores, self.classes, strict=True))
        ]
        return tuple(found)  # not from a generator: CPython keeps up to 2000 of each length of those that it shortened

    def _key_points(self, index: int, place: Placement, motion: Motion) -> tuple[KeyPoint, ...]:
        if self.key_points is None:
            return ()
        points = self.key_points[index]
        places = place.points_in_frame(move_points(points[:, :2], motion)).tolist()
        return tuple([KeyPoint(x, y, float(score)) for (x, y), score in zip(places, points[:, 2], strict=True)])

    def _outlines(self, index: int, place: Placement, motion: Motion) -> tuple[tuple[tuple[float, float], ...], ...]:
        if self.outlines is None:
            return ()
        parts = (place.points_in_frame(move_points(part, motion)).tolist() for part in self.outlines[index])
        return tuple([tuple([(x, y) for x, y in part]) for part in parts])


def label_of(labels: tuple[str, ...], class_id: int) -> str:
    """Return the name of a class, or its number where it has none."""
    return labels[class_id] if class_id < len(labels) else str(class_id)
