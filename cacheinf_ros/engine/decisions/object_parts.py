# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""What of an object is right, and what of it moves: its box, its mask and each of its key points.

A person who waves stays in one box. So the decision about an object is divided equally among the parts that are seen,
and each is right or wrong by itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cacheinf_ros.engine.decisions.soft_boxes import LINK_IOU, SEEN_SCORE, SOFT, SoftBoxes, class_overlaps, mask_iou

COCO_SIGMAS = (
    0.026, 0.025, 0.025, 0.035, 0.035, 0.079, 0.079, 0.072, 0.072, 0.062, 0.062, 0.107, 0.107, 0.087, 0.087, 0.089,
    0.089,
)  # fmt: skip
"""How far people place a key point from each other, as a share of the object's size: nose, eyes, ears, shoulders,
elbows, wrists, hips, knees and ankles (COCO's evaluation of key points)."""
OTHER_SIGMA = 0.05
"""The same for networks that do not give 17 key points."""
RIGHT_LIKENESS = 0.5
"""The least intersection over union of masks, and similarity of key points, of a part that is right."""
STILL_LIKENESS = 0.8
"""The least likeness of a part that does not move, some frames apart; also of boxes, by intersection over union."""
Pairs = Sequence[tuple[int, int]]
Flags = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Parts:
    """The parts of some objects: first the box, then the mask and the key points where the model gives them.

    Attributes:
        seen: bool [n, parts], which parts of an object are judged.
        right: bool [n, parts], which are right.
        moving: bool [n, parts], which are not where they were.
    """

    seen: Flags
    right: Flags
    moving: Flags

    @property
    def right_share(self) -> NDArray[np.float64]:
        """The share of each object's parts that are right, float64 [n]."""
        return self._share(self.right)

    @property
    def moving_share(self) -> NDArray[np.float64]:
        """The share that moves, float64 [n]."""
        return self._share(self.moving)

    @property
    def moving_right_share(self) -> NDArray[np.float64]:
        """The share that moves and is right, float64 [n]."""
        return self._share(self.right & self.moving)

    def _share(self, which: Flags) -> NDArray[np.float64]:
        return np.asarray((which & self.seen).sum(axis=1) / self.seen.sum(axis=1))


def parts_of_objects(consensus: SoftBoxes, before: SoftBoxes | None) -> Parts:
    """Tell which parts of each object are seen and which move.

    Args:
        consensus: the objects that neighbouring frames agree on.
        before: those some frames earlier; None: nothing is known to move. All parts of an object that was not there
            move, and so does a part that is seen in only one of both.
    """
    seen = _seen(consensus)
    all_right = np.ones_like(seen)
    if before is None:
        return Parts(seen=seen, right=all_right, moving=np.zeros_like(seen))
    overlaps = class_overlaps(consensus, before)
    if not overlaps.shape[1]:
        return Parts(seen=seen, right=all_right, moving=np.ones_like(seen))
    then, most = overlaps.argmax(axis=1), overlaps.max(axis=1)
    likeness = _likeness(consensus, np.arange(len(then)), before, then)
    likeness[:, 0] = most
    moving = (likeness < STILL_LIKENESS) | (most < LINK_IOU)[:, None]
    return Parts(seen=seen | _seen(before)[then], right=all_right, moving=moving)


def parts_of_pairs(answer: SoftBoxes, consensus: SoftBoxes, pairs: Pairs, objects: Parts) -> Parts:
    """Tell which parts of an answer are right.

    Args:
        answer: the boxes of one frame.
        consensus: the objects that neighbouring frames agree on.
        pairs: indices of the boxes of the same object in both.
        objects: the parts of ``consensus``.
    """
    if not pairs:
        none = objects.seen[:0]
        return Parts(seen=none, right=none, moving=none)
    ours, theirs = (np.array(column, np.int64) for column in zip(*pairs, strict=True))
    right = _likeness(answer, ours, consensus, theirs) >= RIGHT_LIKENESS
    return Parts(seen=objects.seen[theirs] | _seen(answer)[ours], right=right, moving=objects.moving[theirs])


def _seen(objects: SoftBoxes) -> Flags:
    """Tell which parts of each object are there, bool [n, parts]: the box, a mask, and key points that are seen."""
    columns = [np.ones((len(objects.boxes), 1), np.bool_)]
    if objects.masks is not None:
        columns.append(np.asarray(objects.masks.any(axis=1))[:, None])
    if objects.key_points is not None:
        columns.append(objects.key_points[:, :, 2] >= SEEN_SCORE)
    return np.concatenate(columns, axis=1)


def _likeness(
    first: SoftBoxes, of_first: NDArray[np.int64], second: SoftBoxes, of_second: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Return how alike the parts of two objects are, 0 to 1, float64 [pairs, parts]; boxes are taken to be alike.

    Parts that neither has are alike; parts that only one has are not.
    """
    columns = [np.ones((len(of_first), 1))]
    _check_same_parts(first, second)
    if first.masks is not None and second.masks is not None:
        columns.append(mask_iou(first.masks[of_first], second.masks[of_second])[:, None])
    if first.key_points is not None and second.key_points is not None:
        ours, theirs = first.key_points[of_first], second.key_points[of_second]
        likeness = key_point_similarity(ours, theirs, second.boxes[of_second, 2:].prod(axis=1))
        scores = np.stack([ours[:, :, 2], theirs[:, :, 2]])
        likeness[scores.max(axis=0) < SEEN_SCORE] = 1.0
        likeness[(scores.max(axis=0) >= SEEN_SCORE + SOFT) & (scores.min(axis=0) < SEEN_SCORE - SOFT)] = 0.0
        columns.append(likeness)
    return np.concatenate(columns, axis=1)


def _check_same_parts(first: SoftBoxes, second: SoftBoxes) -> None:
    given = [
        (each.masks is not None, None if each.key_points is None else each.key_points.shape[1])
        for each in (first, second)
    ]
    if given[0] != given[1]:
        raise ValueError(f"objects of different networks: whether there are masks, and key points, is {given}")


def key_point_similarity(
    first: NDArray[np.float32], second: NDArray[np.float32], areas: NDArray[np.float32]
) -> NDArray[np.float64]:
    """Return how near key points are, 1 where they are at the same place, float64 [n, points].

    This is exp(-d^2 / (2 s^2 (2 sigma)^2)), of which COCO's object keypoint similarity is the mean; s^2 is the area of
    the box here, of the object's outline there, which is about half as much.

    Args:
        first: float32 [n, points, 3], (x, y, score).
        second: the same; with 17 points, these are taken to be COCO's.
        areas: float32 [n], of the objects' boxes in pixels.
    """
    count = second.shape[1]
    sigmas = np.array(COCO_SIGMAS if count == len(COCO_SIGMAS) else (OTHER_SIGMA,) * count)
    squared = np.square(first[:, :, :2] - second[:, :, :2], dtype=np.float64).sum(axis=2)
    return np.asarray(np.exp(-squared / np.maximum(2 * np.square(2 * sigmas) * areas[:, None], 1e-9)))
