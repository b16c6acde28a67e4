# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""A few consecutive frames that were computed densely: they show what every policy of holding answers would have cost.

A held answer belongs to an earlier frame, so nothing has to be computed again to judge a policy. Each frame is judged
as soon as its neighbours are there, so that little is left to do after the last. Then only scores and changes are
needed, and the decisions, which may be whole pictures, are forgotten.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from cacheinf_ros.engine.decisions import RADIUS, Loss, Score, Task, score_all, score_at
from cacheinf_ros.pipeline.picture_change import Change, ChangeMeter

D = TypeVar("D")
Image = NDArray[np.uint8]
LONGEST = 5
"""The number of consecutive frames that an answer is held for, at most: a sixth of a second at 30 Hz."""


class Burst(Generic[D]):
    """Consecutive frames with their dense decisions."""

    def __init__(self, task: Task[D], meter: ChangeMeter) -> None:
        self._task = task
        self._meter = meter
        self._thumbnails: deque[Image] = deque(maxlen=LONGEST)  # of the last frames
        self._decisions: list[D] = []
        self._changes: list[list[Change]] = []  # of each frame: since the one before, since two frames before, ...
        self._beside: list[Score] = []  # for each frame, the answer to the frame before judged by its own
        self._agreed: list[D] = []
        self._scores: list[list[Score]] = []  # of each frame, given its own answer, that of the frame before, ...
        self._change_table: NDArray[np.float64] | None = None  # of the frames so far, once it was asked for
        self._score_table: NDArray[np.float64] | None = None

    def __len__(self) -> int:
        return len(self._changes)

    def add(self, thumbnail: Image, decision: D) -> None:
        """Add the next frame."""
        self._changes.append([self._meter.between(each, thumbnail) for each in reversed(self._thumbnails)])
        if self._decisions:
            self._beside.append(self._task.score(self._decisions[-1], decision, None))
        self._change_table = self._score_table = None
        self._thumbnails.append(thumbnail)
        self._decisions.append(decision)
        complete = max(0, len(self) - 1 - RADIUS)
        del self._agreed[complete:], self._scores[complete:]
        self._judge(len(self) - RADIUS)

    def changes(self, reach: int) -> list[Change]:
        """Return the changes from each frame to each of the next ``reach`` frames."""
        return [change for changes in self._changes for change in changes[:reach]]

    def held(self, limit: Change | None) -> list[int]:
        """Return for each frame the index of the frame whose answer it would get with these limits."""
        answers = [0]
        for now in range(1, len(self)):
            last = answers[-1]
            age = now - last
            stands = limit is not None and age <= LONGEST and self._changes[now][age - 1].within(limit)
            answers.append(last if stands else now)
        return answers

    def scores(self, answers: Sequence[int]) -> list[Score]:
        """Judge the frames by the consensus; ``answers`` has, for each, the index of the frame whose answer it gets."""
        self._judge(len(self))
        return [self._scores[now][now - answer] for now, answer in enumerate(answers)]

    def forget_decisions(self) -> None:
        """Judge all frames, and keep no more than scores and changes: no frame can be added, nor others be judged."""
        self._judge(len(self))
        self._thumbnails.clear()
        self._decisions.clear()
        self._agreed.clear()

    def loss_of(self, others: Sequence[D]) -> Loss:
        """Return the loss of other answers to the same frames, such as those of the cached engine."""
        own = self.scores(range(len(self)))
        return Loss.of(sum(score_all(self._task, others, self._agreed), Score()), sum(own, Score()))

    @property
    def beside(self) -> list[Score]:
        """The scores of each frame's dense answer on the next frame, flicker included."""
        return self._beside

    def change_table(self) -> NDArray[np.float64]:
        """Return float64 [frames, LONGEST + 1, 2]: largest and mean change by age in frames; infinite where unknown."""
        if self._change_table is None:
            table = np.full((len(self), LONGEST + 1, 2), np.inf)
            for now, changes in enumerate(self._changes):
                for age, change in enumerate(changes, start=1):
                    table[now, age] = change.largest, change.mean
            self._change_table = table
        return self._change_table

    def score_table(self) -> NDArray[np.float64]:
        """Return float64 [frames, LONGEST + 1, 4]: each frame's score by the age of its answer in frames."""
        if self._score_table is None:
            self._judge(len(self))
            table = np.zeros((len(self), LONGEST + 1, 4))
            for now, scores in enumerate(self._scores):
                for age, score in enumerate(scores):
                    table[now, age] = score.right, score.total, score.moving_right, score.moving_total
            self._score_table = table
        return self._score_table

    def _judge(self, end: int) -> None:
        """Find the consensus for all frames before ``end``, and score the answers of earlier frames by it."""
        for now in range(len(self._scores), end):
            first = max(0, now - RADIUS)
            self._agreed.append(self._task.consensus(self._decisions[first : now + RADIUS + 1], now - first))
            answers = self._decisions[now : (now - LONGEST - 1 if now > LONGEST else None) : -1]
            self._scores.append([score_at(self._task, answer, self._agreed, now) for answer in answers])
