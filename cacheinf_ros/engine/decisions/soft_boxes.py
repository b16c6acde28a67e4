# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Boxes that count in part, with the key points and masks of their objects."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from cacheinf_ros.engine.accuracy import DEFAULT_IOU, box_iou
from cacheinf_ros.engine.decoders import Box

MASK_SIZE = 28
"""The rows and columns of an object's mask: as many as Mask R-CNN predicts (arXiv 1703.06870)."""

SOFT = 0.1
"""Half of the range of scores around a threshold in which something counts in part: scores wobble with sensor noise."""
REPORTED_WEIGHT = 0.5
"""The weight of a box whose score is at the threshold."""
SEEN_SCORE = 0.5
"""The score from which a key point is taken to be seen."""
LINK_IOU = 0.4
"""The least overlap of an object's boxes in neighbouring frames."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SoftBoxes:
    """Boxes that count in part.

    Attributes:
        boxes: float32 [n, 4], (x, y, width, height) in pixels of the frame.
        classes: int64 [n].
        weights: float32 [n], 0 to 1: how much each counts.
        key_points: float32 [n, points, 3], (x, y, score) in pixels of the frame; None: the model gives none.
        masks: uint8 [n, MASK_SIZE^2 / 8], the pixels of each object in its box, row by row, packed into bits; None: the
            model gives none.
    """

    boxes: NDArray[np.float32]
    classes: NDArray[np.int64]
    weights: NDArray[np.float32]
    key_points: NDArray[np.float32] | None = None
    masks: NDArray[np.uint8] | None = None

    @classmethod
    def none(cls) -> SoftBoxes:
        """Return no boxes."""
        return cls(boxes=np.zeros((0, 4), np.float32), classes=np.zeros(0, np.int64), weights=np.zeros(0, np.float32))

    def chosen(self, which: NDArray[np.bool_]) -> SoftBoxes:
        """Return some of the boxes; ``which``: bool [n]."""
        return SoftBoxes(
            boxes=self.boxes[which],
            classes=self.classes[which],
            weights=self.weights[which],
            key_points=None if self.key_points is None else self.key_points[which],
            masks=None if self.masks is None else self.masks[which],
        )

    @property
    def reported(self) -> SoftBoxes:
        """The boxes whose scores reach the threshold, which users get."""
        return self.chosen(self.weights >= REPORTED_WEIGHT)

    def points_seen(self) -> list[NDArray[np.float32]]:
        """Return for each box the places of its key points that are seen, float32 [seen, 2]."""
        if self.key_points is None:
            return [np.zeros((0, 2), np.float32)] * len(self.boxes)
        return [points[points[:, 2] >= SEEN_SCORE, :2] for points in self.key_points]


def class_overlaps(first: SoftBoxes, second: SoftBoxes) -> NDArray[np.float64]:
    """Compute the intersection over union of boxes, float64 [n, m]; 0 between different classes."""
    overlaps = box_iou(first.boxes, second.boxes)
    overlaps[first.classes[:, None] != second.classes[None, :]] = 0.0
    return overlaps


def matched_boxes(answer: SoftBoxes, consensus: SoftBoxes) -> list[tuple[int, int]]:
    """Pair the boxes of the same object by index, each in at most one pair; those that count most choose first."""
    overlaps, pairs = class_overlaps(answer, consensus), []
    if not overlaps.size:
        return []
    for i in np.argsort(-answer.weights, kind="stable"):
        j = int(overlaps[i].argmax())
        if overlaps[i, j] >= DEFAULT_IOU:
            pairs.append((int(i), j))
            overlaps[:, j] = -1.0
    return pairs


def key_points_of(boxes: Sequence[Box], count: int) -> NDArray[np.float32]:
    """Return float32 [n, count, 3], (x, y, score); a box without key points has some with the score 0."""
    points = np.zeros((len(boxes), count, 3), np.float32)
    for index, box in enumerate(boxes):
        if len(box.key_points) == count:
            points[index] = box.key_points
    return points


def masks_of(boxes: Sequence[Box]) -> NDArray[np.uint8]:
    """Draw the outlines of each box's object into its box; returns masks as in :class:`SoftBoxes`."""
    masks = np.zeros((len(boxes), MASK_SIZE, MASK_SIZE), np.uint8)
    for mask, box in zip(masks, boxes, strict=True):
        scale = MASK_SIZE / np.maximum([box.width, box.height], 1e-6)
        polygons = [(np.array(outline) - (box.x, box.y)) * scale for outline in box.outlines if outline]
        within = [np.clip(np.nan_to_num(polygon), -1, MASK_SIZE) for polygon in polygons]
        cv2.fillPoly(mask, [np.floor(polygon).astype(np.int32) for polygon in within], 1)
    return packed_masks(masks)


def packed_masks(masks: NDArray[Any]) -> NDArray[np.uint8]:
    """Pack masks [n, MASK_SIZE, MASK_SIZE], of which pixels are not 0, as :class:`SoftBoxes` has them."""
    return np.packbits(masks.reshape(len(masks), MASK_SIZE**2) != 0, axis=1)


def mask_iou(first: NDArray[np.uint8], second: NDArray[np.uint8]) -> NDArray[np.float64]:
    """Compute the intersection over union of packed masks, each within its own box, float64 [n]; 1 of empty ones."""
    shared, union = (np.unpackbits(each, axis=1).sum(axis=1) for each in (first & second, first | second))
    return np.divide(shared, union, out=np.ones(len(shared)), where=union > 0)
