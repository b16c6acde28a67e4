# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Scores answers by the truth about a frame: how many of its objects are found, and how well their boxes fit.

Precision and F1 are given only for classes of which every object is known, as in labelled folders and built-in scenes:
masks name the objects that somebody marked, not everything that a model may rightly find. For them each box is paired
with one object at most; for recall a box may be that of several.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from cacheinf_ros.engine import Counts
from cacheinf_ros.engine.accuracy import DEFAULT_IOU, Detections, DetectionScore, box_array, box_iou, score_frame
from cacheinf_ros.engine.decisions import REPORTED_WEIGHT, SoftBoxes
from cacheinf_ros.errors import ConfigError
from cacheinf_ros.sources import TrueObject


@dataclass(frozen=True, slots=True, kw_only=True)
class TruthScore(Counts):
    """Counts over any number of frames.

    Attributes:
        objects: how many objects there are.
        found: how many of the objects a box overlaps by half.
        overlap: sum of each object's intersection over union with the best box; 0 where there is none.
        detections: what was found of the classes of which every object is known.
    """

    objects: int = 0
    found: int = 0
    overlap: float = 0.0
    detections: DetectionScore = field(default_factory=DetectionScore)

    def report(self) -> dict[str, float | int | None]:
        """Return the score for JSON.

        These are recall, and the mean overlap of objects with their best box, None where there are no objects;
        precision, None where no box is of a class that is known completely; F1, None where there is no object
        of such a class either.
        """
        objects, known = self.objects, self.detections
        has_boxes = known.true_positives + known.false_positives > 0
        return {
            "objects": objects,
            "recall": round(self.found / objects, 4) if objects else None,
            "iou": round(self.overlap / objects, 4) if objects else None,
            "precision": round(known.precision, 4) if has_boxes else None,
            "f1": round(known.f1, 4) if known != DetectionScore() else None,
        }


class TruthClasses:
    """The classes of a model that an object may be found as, and those of which every object is known."""

    def __init__(self, labels: Sequence[str], named: str = "", marked: Sequence[str] = ()) -> None:
        """Take the model's labels.

        Args:
            named: classes, separated by commas, that objects without a label of their own may be found as; empty: any.
            marked: the labels of which every object is known; others than the model's do not matter.

        Raises:
            ConfigError: the model has no such class.
        """
        self._labels = list(labels)
        names = [name.strip() for name in named.split(",") if name.strip()]
        for name in names:
            if name not in self._labels:
                similar = difflib.get_close_matches(name, self._labels, n=1)
                meant = f"; did you mean {similar[0]}?" if similar else f"; it has {', '.join(self._labels) or 'none'}"
                raise ConfigError(f"truth_class {name!r}: the model has no such class{meant}")
        self._named = frozenset(self._labels.index(name) for name in names)
        self._marked = [self._labels.index(name) for name in marked if name in self._labels]

    @property
    def are_marked(self) -> bool:
        """Whether every object of some class is known."""
        return bool(self._marked)

    def ids(self, label: str) -> frozenset[int]:
        """Return the class ids that an object of this label may be found as; empty: the model does not know it."""
        if label:
            return frozenset({self._labels.index(label)} if label in self._labels else ())
        return self._named or frozenset(range(len(self._labels)))

    def known(self, objects: Sequence[TrueObject]) -> list[TrueObject]:
        """Return the objects that the model has a class for; all, where the model has no labels."""
        return [each for each in objects if self.ids(each.label) or not self._labels]

    def score(self, answer: SoftBoxes | None, objects: Sequence[TrueObject]) -> TruthScore:
        """Judge one frame's answer; None: there is none, and no object is found."""
        known, detections = self.known(objects), self._detections(answer, objects)
        if answer is None or not known:
            return TruthScore(objects=len(known), detections=detections)
        overlaps = box_iou(box_array(known), answer.boxes)
        for row, each in zip(overlaps, known, strict=True):
            wanted = self.ids(each.label)
            right = np.isin(answer.classes, list(wanted)) if wanted else np.ones(len(answer.classes), np.bool_)
            row[~right | (answer.weights < REPORTED_WEIGHT)] = 0.0
        best = overlaps.max(axis=1, initial=0.0)
        found = int(np.count_nonzero(best >= DEFAULT_IOU))
        return TruthScore(objects=len(known), found=found, overlap=float(best.sum()), detections=detections)

    def _detections(self, answer: SoftBoxes | None, objects: Sequence[TrueObject]) -> DetectionScore:
        """Compare boxes and objects of the classes of which every object is known."""
        if not self._marked:
            return DetectionScore()
        marked = [each for each in objects if each.label in self._labels]
        expected = Detections.of_objects(marked, self._labels).of_classes(self._marked)
        if answer is None:
            return DetectionScore(false_negatives=len(expected.boxes))
        said = answer.weights >= REPORTED_WEIGHT
        found = Detections(boxes=answer.boxes[said], classes=answer.classes[said], scores=answer.weights[said])
        return score_frame(found.of_classes(self._marked), expected)
