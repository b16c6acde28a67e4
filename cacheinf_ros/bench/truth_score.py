# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Scores answers by the truth about a frame: how many of its objects are found, and how well their boxes fit.

Masks and scenes name the objects that somebody marked or drew, not everything that a model may rightly find, so there
is no precision.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cacheinf_ros.engine import Counts
from cacheinf_ros.engine.accuracy import DEFAULT_IOU, box_array, box_iou
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
    """

    objects: int = 0
    found: int = 0
    overlap: float = 0.0

    def report(self) -> dict[str, float | int | None]:
        """Return recall, and the mean overlap of objects with their best box; None where there are no objects."""
        if not self.objects:
            return {"objects": 0, "recall": None, "iou": None}
        recall, iou = self.found / self.objects, self.overlap / self.objects
        return {"objects": self.objects, "recall": round(recall, 4), "iou": round(iou, 4)}


class TruthClasses:
    """The classes of a model that an object may be found as."""

    def __init__(self, labels: Sequence[str], named: str = "") -> None:
        """Take the model's labels.

        Args:
            named: classes, separated by commas, that objects without a label of their own may be found as; empty: any.

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
        known = self.known(objects)
        if answer is None or not known:
            return TruthScore(objects=len(known))
        overlaps = box_iou(box_array(known), answer.boxes)
        for row, each in zip(overlaps, known, strict=True):
            wanted = self.ids(each.label)
            right = np.isin(answer.classes, list(wanted)) if wanted else np.ones(len(answer.classes), np.bool_)
            row[~right | (answer.weights < REPORTED_WEIGHT)] = 0.0
        best = overlaps.max(axis=1, initial=0.0)
        return TruthScore(
            objects=len(known), found=int(np.count_nonzero(best >= DEFAULT_IOU)), overlap=float(best.sum())
        )
