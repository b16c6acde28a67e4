# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""When the last answer still stands: limits on how far the picture may change, found on frames computed densely.

Some frames in a row are computed densely, which shows what every policy would have answered: an answer that is held
for a later frame is that of an earlier one. So any limits can be judged afterwards, without running the model again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from cacheinf_ros.engine.decisions import Loss, Score, Task, consensus_of_all, score_all, score_at
from cacheinf_ros.pipeline.picture_change import Change, ChangeMeter

D = TypeVar("D")
Image = NDArray[np.uint8]
LONGEST = 12
"""Frames in a row that an answer is held for, at most."""
_AFTER_ONE, _LATER = Loss(whole=1.5, moving=1.5), Loss(whole=1.0, moving=0.5)
"""Standard errors that are added to a loss before it counts as within the promise, after one burst and after several.

A burst shows few decisions where things move, and frames in a row are alike: a first one deceives easily.
"""
_NEAR = 2  # frames
_STEPS = 8  # limits of each kind that are tried


@dataclass(frozen=True, slots=True, kw_only=True)
class Holding:
    """How limits did on frames that were computed densely.

    Attributes:
        limit: an answer is held while the change since its frame is within it; None: never.
        loss: what that cost.
        computed: share of the frames that would have been computed.
    """

    limit: Change | None
    loss: Loss
    computed: float


NEVER = Holding(limit=None, loss=Loss(whole=0.0, moving=0.0), computed=1.0)


class Burst(Generic[D]):
    """Frames in a row with their dense decisions."""

    def __init__(self, task: Task[D], meter: ChangeMeter) -> None:
        self._task = task
        self._meter = meter
        self._thumbnails: list[Image] = []
        self._decisions: list[D] = []
        self._changes: dict[tuple[int, int], Change] = {}
        self._scores: dict[tuple[int, int], Score] = {}
        self._agreed: list[D] = []

    def __len__(self) -> int:
        return len(self._decisions)

    def add(self, thumbnail: Image, decision: D) -> None:
        """Take the next frame."""
        self._thumbnails.append(thumbnail)
        self._decisions.append(decision)
        self._agreed = []

    def change(self, before: int, now: int) -> Change:
        """The change between two of the frames."""
        key = (before, now)
        if key not in self._changes:
            self._changes[key] = self._meter.between(self._thumbnails[before], self._thumbnails[now])
        return self._changes[key]

    def changes(self, reach: int) -> list[Change]:
        """The changes from each frame to the next, and to so many more."""
        return [self.change(i, now) for now in range(len(self)) for i in range(max(0, now - reach), now)]

    def held(self, limit: Change | None) -> list[int]:
        """For each frame, the one whose answer stands with these limits."""
        answers = [0]
        for now in range(1, len(self)):
            last = answers[-1]
            stands = limit is not None and now - last <= LONGEST and self.change(last, now).within(limit)
            answers.append(last if stands else now)
        return answers

    def scores(self, answers: Sequence[int]) -> list[Score]:
        """Judge every frame, answered by the one with this index, by the consensus."""
        if not self._agreed:
            self._agreed = consensus_of_all(self._task, self._decisions)
            self._scores = {}
        return [self._judged(answer, now) for now, answer in enumerate(answers)]

    def loss_of(self, others: Sequence[D]) -> Loss:
        """What other answers to the same frames cost, such as those of the cached engine."""
        own = self.scores(range(len(self)))
        return Loss.of(sum(score_all(self._task, others, self._agreed), Score()), sum(own, Score()))

    def _judged(self, answer: int, now: int) -> Score:
        key = (answer, now)
        if key not in self._scores:
            self._scores[key] = score_at(self._task, self._decisions[answer], self._agreed, now)
        return self._scores[key]


def best_holding(bursts: Sequence[Burst[Any]], max_loss: float) -> Holding:
    """The limits that compute the fewest frames while the loss, with its standard error, is within the promise.

    No limit goes beyond the changes that the frames showed: what is larger than anything that was tried is computed.
    """
    if not any(burst.changes(LONGEST) for burst in bursts):
        return NEVER
    caution = _AFTER_ONE if len(bursts) == 1 else _LATER
    best, dense = NEVER, [score for burst in bursts for score in burst.scores(range(len(burst)))]
    for largest in _steps(bursts, lambda change: change.largest):
        for mean in _steps(bursts, lambda change: change.mean):
            limit = Change(largest=largest, mean=mean)
            answers = [burst.held(limit) for burst in bursts]
            computed = sum(len(set(held)) for held in answers) / len(dense)
            if computed >= best.computed:
                continue
            ours = [score for burst, held in zip(bursts, answers, strict=True) for score in burst.scores(held)]
            loss = Loss.of(sum(ours, Score()), sum(dense, Score()))
            if _surely(loss, ours, dense, caution).within(max_loss):
                best = Holding(limit=limit, loss=loss, computed=computed)
    return best


def _surely(loss: Loss, ours: Sequence[Score], dense: Sequence[Score], caution: Loss) -> Loss:
    """The loss with so many of its standard errors, from how it differs from frame to frame."""
    whole = [(d.right - o.right, d.total) for o, d in zip(ours, dense, strict=True)]
    moving = [(d.moving_right - o.moving_right, d.moving_total) for o, d in zip(ours, dense, strict=True)]
    return Loss(
        whole=loss.whole + caution.whole * _standard_error(whole),
        moving=loss.moving + caution.moving * _standard_error(moving),
    )


def _standard_error(missed: Sequence[tuple[float, float]]) -> float:
    """Of the ratio of two sums over frames."""
    parts, totals = np.array(missed, np.float64).T
    if not totals.sum():
        return 0.0
    ratio = parts.sum() / totals.sum()
    return float(np.sqrt(np.sum(np.square(parts - ratio * totals))) / totals.sum())


def _steps(bursts: Sequence[Burst[Any]], figure: Callable[[Change], float]) -> list[float]:
    """Candidates for a limit: evenly by rank among the changes to the next frames, and among those to later ones."""
    near, far = ([figure(c) for burst in bursts for c in burst.changes(reach)] for reach in (_NEAR, LONGEST))
    ranks = np.linspace(0.02, 0.98, _STEPS)
    return sorted({*np.quantile(near, ranks).tolist(), *np.quantile(far, ranks).tolist()})
