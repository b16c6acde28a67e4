# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""What of an object is right, and what of it moves: its box, its mask and each of its key points.

A person who waves stays in one box. So the decision about an object is divided equally among the parts that the model
gives, and each is right or wrong by itself.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from cacheinf_ros.engine.decisions.soft_boxes import SEEN_POINT, SoftBoxes, class_overlaps

COCO_SIGMAS = (
    0.026, 0.025, 0.025, 0.035, 0.035, 0.079, 0.079, 0.072, 0.072, 0.062, 0.062, 0.107, 0.107, 0.087, 0.087, 0.089,
    0.089,
)  # fmt: skip
"""How far people place a key point from each other, as a share of the object's size: nose, eyes, ears, shoulders,
elbows, wrists, hips, knees and ankles (COCO's evaluation of key points)."""
OTHER_SIGMA = 0.05
"""The same for networks with other key points."""
RIGHT_LIKENESS = 0.5
"""The least intersection over union of masks, and similarity of key points, of a part that is right."""
STILL_LIKENESS = 0.8
"""The least likeness of a part that does not move, some frames apart; also of boxes, by intersection over union."""
LINK_IOU = 0.4
"""The least overlap of an object's boxes in neighbouring frames."""


def parts_seen(consensus: SoftBoxes) -> NDArray[np.bool_]:
    """Tell which parts of each object are judged, bool [n, parts]: the box, a mask, and key points that are seen."""
    count = len(consensus.boxes)
    columns = [np.ones((count, 1), np.bool_)]
    if consensus.masks is not None:
        columns.append(np.asarray(consensus.masks.any(axis=(1, 2)))[:, None])
    if consensus.key_points is not None:
        columns.append(consensus.key_points[:, :, 2] >= SEEN_POINT)
    return np.concatenate(columns, axis=1)


def parts_right(answer: SoftBoxes, consensus: SoftBoxes, pairs: Sequence[tuple[int, int]]) -> NDArray[np.bool_]:
    """Tell which parts of the answer are right, bool [pairs, parts]; ``pairs``: indices of boxes of the same object."""
    ours, theirs = (np.array(column, np.int64) for column in (zip(*pairs, strict=True) if pairs else ((), ())))
    return _likeness(answer, ours, consensus, theirs) >= RIGHT_LIKENESS


def parts_moving(consensus: SoftBoxes, before: SoftBoxes) -> NDArray[np.bool_]:
    """Tell which parts are not where they were, bool [n, parts]; all are of an object that was not there."""
    overlaps = class_overlaps(consensus, before)
    if not overlaps.shape[1]:
        return np.ones_like(parts_seen(consensus))
    then = overlaps.argmax(axis=1)
    likeness = _likeness(consensus, np.arange(len(then)), before, then)
    likeness[:, 0] = overlaps.max(axis=1)
    return (likeness < STILL_LIKENESS) | (overlaps.max(axis=1, keepdims=True) < LINK_IOU)


def _likeness(
    first: SoftBoxes, of_first: NDArray[np.int64], second: SoftBoxes, of_second: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Return how alike the parts of two objects are, 0 to 1, float64 [pairs, parts]; boxes are taken to be alike."""
    columns = [np.ones((len(of_first), 1))]
    if second.masks is not None:
        columns.append(
            np.zeros((len(of_first), 1))
            if first.masks is None
            else _mask_iou(first.masks[of_first], second.masks[of_second])
        )
    if second.key_points is not None:
        points = second.key_points[of_second]
        ours = np.zeros_like(points) if first.key_points is None else first.key_points[of_first]
        areas = second.boxes[of_second, 2:].prod(axis=1)
        columns.append(similarity(ours, points, areas) * (ours[:, :, 2] > 0))
    return np.concatenate(columns, axis=1)


def _mask_iou(first: NDArray[np.bool_], second: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Return the intersection over union of masks, each within its own box, float64 [n, 1]."""
    shared = (first & second).sum(axis=(1, 2), dtype=np.float64)
    return (shared / np.maximum((first | second).sum(axis=(1, 2)), 1))[:, None]


def similarity(
    first: NDArray[np.float32], second: NDArray[np.float32], areas: NDArray[np.float32]
) -> NDArray[np.float64]:
    """Return the similarity of key points, 1 where they are at the same place, as in COCO's OKS before the mean.

    Args:
        first: float32 [n, points, 3].
        second: the same.
        areas: float32 [n], of the objects' boxes in pixels.
    """
    count = second.shape[1]
    sigmas = np.array(COCO_SIGMAS if count == len(COCO_SIGMAS) else (OTHER_SIGMA,) * count)
    squared = np.square(first[:, :, :2] - second[:, :, :2], dtype=np.float64).sum(axis=2)
    return np.asarray(np.exp(-squared / np.maximum(2 * np.square(2 * sigmas) * areas[:, None], 1e-9)))
