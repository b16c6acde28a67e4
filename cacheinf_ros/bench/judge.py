# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Judges a way to answer a camera's frames by consensus and by truth, both without delay and at the camera's rate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from cacheinf_ros.bench.loss import shares
from cacheinf_ros.bench.missed import longest_miss
from cacheinf_ros.bench.streaming import frames_behind
from cacheinf_ros.bench.truth_score import TruthClasses, TruthScore
from cacheinf_ros.engine.decisions import BoxDecisions, ClassMaps, Score, Task, score_at
from cacheinf_ros.engine.mean_iou import UNJUDGED, Drawn, count_pixels, mean_iou
from cacheinf_ros.sources import TrueObject

Objects = tuple[TrueObject, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Judge:
    """Knows what is right in each frame, and judges answers by it.

    Attributes:
        task: the task that scores decisions.
        agreed: the consensus for each frame.
        objects: the objects that are truly in each frame; None where that is not known.
        classes: the classes that objects may be found as.
        maps: the drawn class map for each frame, as large as decisions are, see :mod:`.drawn_maps`; None for frames for
            which there is none, or in place of all.
    """

    task: Task[Any]
    agreed: Sequence[Any]
    objects: Sequence[Objects | None]
    classes: TruthClasses
    maps: Sequence[Drawn | None] | None = None

    def consensus(self, answers: Sequence[Any]) -> dict[str, float | None]:
        """Return the share of right decisions, with one answer per frame; None, no answer, has none right."""
        return shares(sum((self._score(answer, index) for index, answer in enumerate(answers)), Score()))

    def truth(self, answers: Sequence[Any]) -> dict[str, Any] | None:
        """Return how many of the objects are found, and how many boxes are right; of class maps the mean IoU.

        The result is None without known objects or drawn maps in any frame.
        """
        if isinstance(self.task, ClassMaps):
            return self._truth_of_maps(answers)
        told = [(answer, objects) for answer, objects in zip(answers, self.objects, strict=True) if objects is not None]
        if not isinstance(self.task, BoxDecisions) or not any(self._can_tell(objects) for _, objects in told):
            return None
        return sum((self.classes.score(answer, objects) for answer, objects in told), TruthScore()).report()

    def _truth_of_maps(self, answers: Sequence[Any]) -> dict[str, Any] | None:
        maps = [None] * len(answers) if self.maps is None else self.maps
        told = [(answer, right) for answer, right in zip(answers, maps, strict=True) if right is not None]
        if not told:
            return None
        seen = [each for answer, right in told for each in (answer, right[right != UNJUDGED]) if each is not None]
        classes = 1 + max(int(each.max(initial=0)) for each in seen)
        counts = [count_pixels(answer, right, classes) for answer, right in told]
        return {"mean_iou": round(mean_iou(np.sum(counts, axis=0)), 4)}

    def _can_tell(self, objects: Objects) -> bool:
        return self.classes.are_marked or bool(self.classes.known(objects))

    def missed_frames(self, answers: Sequence[Any]) -> int | None:
        """Return the most consecutive frames in which an object of the consensus is missed; None without boxes."""
        return longest_miss(self.agreed, answers) if isinstance(self.task, BoxDecisions) else None

    def judge(self, answers: Sequence[Any], arrived: Sequence[Any], sources: Sequence[int | None]) -> dict[str, Any]:
        """Return all figures for JSON.

        Args:
            answers: the answer to each frame, however late.
            arrived: for each frame, the newest answer that has arrived at its time.
            sources: for each frame, the index of the frame that this newest answer was computed for.
        """
        behind = frames_behind(sources)
        return {
            "streaming": self.consensus(arrived),
            "frames_behind": None if behind is None else round(behind, 3),
            "missed_frames": self.missed_frames(answers),
            "truth": self.truth(answers),
            "truth_streaming": self.truth(arrived),
        }

    def _score(self, answer: Any, index: int) -> Score:
        if answer is not None:
            return score_at(self.task, answer, self.agreed, index)
        all_right = score_at(self.task, self.agreed[index], self.agreed, index)
        return Score(total=all_right.total, moving_total=all_right.moving_total)
