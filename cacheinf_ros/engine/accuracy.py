# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Precision, recall and F1: how well detections agree with the ground truth, or with other detections."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from cacheinf_ros.engine.counts import Counts
from cacheinf_ros.engine.decoders import Box
from cacheinf_ros.sources import SceneTruth, TrueObject

DEFAULT_IOU = 0.5


class HasBox(Protocol):
    """Anything in a box, whose place and size are in pixels."""

    @property
    def x(self) -> float: ...  # noqa: D102
    @property
    def y(self) -> float: ...  # noqa: D102
    @property
    def width(self) -> float: ...  # noqa: D102
    @property
    def height(self) -> float: ...  # noqa: D102


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Detections:
    """The detections of one frame.

    Attributes:
        boxes: float32 [n, 4], (x, y, width, height) in pixels.
        classes: int64 [n].
        scores: float32 [n]; all 1 where the boxes are the truth.
    """

    boxes: NDArray[np.float32]
    classes: NDArray[np.int64]
    scores: NDArray[np.float32]

    @classmethod
    def of_truth(cls, truth: SceneTruth) -> Detections:
        """Build the detections that a perfect detector would find in a built-in scene."""
        return cls._perfect(truth.objects, [found.class_id for found in truth.objects])

    @classmethod
    def of_objects(cls, objects: Sequence[TrueObject], labels: Sequence[str]) -> Detections:
        """Build the detections that a perfect detector with these labels would find; raises ValueError for others."""
        return cls._perfect(objects, [labels.index(each.label) for each in objects])

    @classmethod
    def of_boxes(cls, boxes: Sequence[Box]) -> Detections:
        """Build the detections of one frame from the boxes that a decoder found."""
        return cls(
            boxes=box_array(boxes),
            classes=np.array([box.class_id for box in boxes], np.int64),
            scores=np.array([box.score for box in boxes], np.float32),
        )

    @classmethod
    def _perfect(cls, objects: Sequence[HasBox], classes: Sequence[int]) -> Detections:
        return cls(
            boxes=box_array(objects), classes=np.array(classes, np.int64), scores=np.ones(len(objects), np.float32)
        )

    def of_classes(self, classes: Sequence[int]) -> Detections:
        """Return those of the detections that have one of these classes."""
        kept = np.isin(self.classes, classes)
        return Detections(boxes=self.boxes[kept], classes=self.classes[kept], scores=self.scores[kept])


@dataclass(frozen=True, slots=True, kw_only=True)
class DetectionScore(Counts):
    """Counts of right, false and missed detections over any number of frames."""

    true_positives: int = 0
    false_positives: int = 0
    false_negatives: int = 0

    @property
    def precision(self) -> float:
        """The share of the detections that are right; 1 where nothing was detected."""
        return _share(self.true_positives, self.true_positives + self.false_positives)

    @property
    def recall(self) -> float:
        """The share of the objects that were found; 1 where there was nothing to find."""
        return _share(self.true_positives, self.true_positives + self.false_negatives)

    @property
    def f1(self) -> float:
        """The harmonic mean of precision and recall; 1 where there was nothing to find and nothing was found."""
        wrong = self.false_positives + self.false_negatives
        return _share(2 * self.true_positives, 2 * self.true_positives + wrong)


def score_sequence(pairs: Iterable[tuple[Detections, Detections]]) -> DetectionScore:
    """Add up the frames of a sequence, each as (found, expected)."""
    return sum((score_frame(found, expected) for found, expected in pairs), DetectionScore())


def score_frame(found: Detections, expected: Detections, iou_threshold: float = DEFAULT_IOU) -> DetectionScore:
    """Match detections to expected boxes of the same class, greedily, the best score first (as in PASCAL VOC).

    A detection takes the free expected box that it overlaps most, if their intersection over union reaches the
    threshold; a second detection of the same object is a false one.
    """
    overlaps = box_iou(found.boxes, expected.boxes)
    overlaps[found.classes[:, None] != expected.classes[None, :]] = 0.0
    matched = 0
    for index in np.argsort(-found.scores, kind="stable"):
        if overlaps.shape[1] == 0:
            break
        best = int(overlaps[index].argmax())
        if overlaps[index, best] >= iou_threshold:
            matched += 1
            overlaps[:, best] = -1.0
    return DetectionScore(
        true_positives=matched,
        false_positives=len(found.boxes) - matched,
        false_negatives=len(expected.boxes) - matched,
    )


def box_array(found: Iterable[HasBox]) -> NDArray[np.float32]:
    """Return boxes as float32 [n, 4], (x, y, width, height)."""
    return np.array([(each.x, each.y, each.width, each.height) for each in found], np.float32).reshape(-1, 4)


def box_iou(first: NDArray[np.float32], second: NDArray[np.float32]) -> NDArray[np.float64]:
    """Compute the intersection over union, float64 [n, m], of boxes [n, 4] and [m, 4], each (x, y, width, height)."""
    a, b = first[:, None].astype(np.float64), second[None].astype(np.float64)
    corner = np.maximum(a[..., :2], b[..., :2])
    sides = np.minimum(a[..., :2] + a[..., 2:], b[..., :2] + b[..., 2:]) - corner
    np.maximum(sides, 0, out=sides)
    shared = sides[..., 0] * sides[..., 1]
    union = a[..., 2] * a[..., 3] + b[..., 2] * b[..., 3] - shared
    return np.asarray(shared / np.maximum(union, np.finfo(np.float64).tiny))


def _share(part: int, whole: int) -> float:
    return part / whole if whole else 1.0
