# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Tries dense backends of lower precision in bursts, beside float32: which may compute the frames between bursts.

In a burst they take turns, at most one of them on a frame beside the dense one, which so takes little longer. Their
answers are judged by the consensus of the float32 answers. Their loss is booked against the promise; holding answers
has what remains. One that is not chosen may still keep a lookout while nothing is to be seen
(:mod:`cacheinf_ros.pipeline.quiet_stretch`).
"""

from __future__ import annotations

import logging
import math
from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np

from cacheinf_ros.engine import DensePrecision
from cacheinf_ros.engine.decisions import (
    FEWEST_DECISIONS,
    MOVING_ALLOWANCE,
    Loss,
    Score,
    Task,
    consensus_of_all,
    score_at,
    tells,
)
from cacheinf_ros.engine.dense_backends import CLEARLY, DenseBackend
from cacheinf_ros.pipeline.guard import guarded
from cacheinf_ros.pipeline.ratio_error import ratio_error

MOST = 0.9
"""The share of the promise that a lower precision may use up, at most: a tenth is left for held answers."""
_LEAST = 0.1  # share booked at least, as a loss cannot be known more exactly
_MEMORY = 12  # bursts
_NOT_AGAIN = 3  # bursts without a trial after one that failed; doubled each time
_DOUBTS = 4  # bursts after which a trial ends that has not shown whether the promise is kept
_PRESENT = 0.5  # weight of a box whose score is at the threshold
_EVERY = 2  # each backend runs on at most one of so many frames of a burst
_log = logging.getLogger(__name__)


class LowerPrecision:
    """The backends that were offered, and which of them computes the frames between bursts.

    For one thread at a time, except that another may offer backends.

    Attributes:
        chosen: the backend that computes the frames between bursts; None: those of float32 do.
        booked: share of the promise that it uses up.
        milliseconds: median time of its frames in the last burst.
        showed_something: whether float32 decided anything in the last burst.
    """

    def __init__(self) -> None:
        self.chosen: DenseBackend | None = None
        self.booked = 0.0
        self.milliseconds = math.nan
        self.showed_something = False
        self._offered: deque[DenseBackend] = deque()
        self._trials: list[_Trial] = []
        self._dense: list[Any] = []  # decisions of the burst that is going on

    def offer(self, backend: DenseBackend) -> None:
        """Put a backend on trial from the next frame on, in place of an earlier one of its precision."""
        self._offered.append(backend)

    def _take(self, backend: DenseBackend) -> None:
        others = (trial for trial in self._trials if trial.backend.precision is not backend.precision)
        self._trials = [*others, _Trial(backend)]

    def loses_little(self, precision: DensePrecision) -> bool:
        """Tell whether a backend of this precision loses little, or nothing is known yet about one."""
        return any(trial.loses_little for trial in self._trials if trial.backend.precision is precision)

    @property
    def lookout(self) -> DenseBackend | None:
        """The fastest 16-bit backend that overlooked nothing in bursts; None: there is none.

        int8 backends are calibrated on what was seen: how they respond to anything else is not known.
        """
        fit = [trial for trial in self._trials if trial.overlooks_nothing]
        return min(fit, key=lambda trial: trial.milliseconds).backend if fit else None

    def drop(self, backend: DenseBackend) -> None:
        """Give up a backend that failed."""
        self._trials = [trial for trial in self._trials if trial.backend is not backend]
        if self.chosen is backend:
            self.withdraw()

    def withdraw(self) -> None:
        """Choose none until the next burst, because the promise has changed."""
        self.chosen, self.booked = None, 0.0

    def lost(self) -> None:
        """Forget the answers to the current burst, which begins anew."""
        self._dense.clear()
        self._forget_answers()

    def _forget_answers(self) -> None:
        for trial in self._trials:
            trial.answers.clear()

    def forget(self) -> None:
        """Choose none and forget all losses so far, because other decisions count from now on."""
        self.withdraw()
        self.lost()
        for trial in self._trials:
            trial.start_anew()

    def compare(self, dense: Any, answer: Callable[[DenseBackend], tuple[Any, float]]) -> None:
        """Take the next frame of a burst; a backend that fails on it is given up.

        Args:
            dense: what float32 decides.
            answer: lets a backend decide on the same frame; returns the decision, and the milliseconds it took.
        """
        while self._offered:
            self._take(self._offered.popleft())
        index, waiting = len(self._dense), [trial for trial in self._trials if not trial.pause]
        self._dense.append(dense)
        turn = index % max(_EVERY, len(waiting))
        if turn < len(waiting):
            self._try(waiting[turn], index, answer)

    def _try(self, trial: _Trial, index: int, answer: Callable[[DenseBackend], tuple[Any, float]]) -> None:
        with guarded(f"{trial.backend.name} is given up") as failure:
            trial.answers[index] = answer(trial.backend)
        if failure:
            self.drop(trial.backend)

    def judge(self, task: Task[Any], max_loss: float, full_ms: float, *, kept: bool) -> None:
        """Choose a backend, or none, at the end of a burst.

        Args:
            max_loss: the promised loss.
            full_ms: the time of a frame in float32.
            kept: whether held answers kept the promise; if not, nothing else may lose anything until the next burst.
        """
        agreed, before = consensus_of_all(task, self._dense), self.chosen
        self.withdraw()
        scores = (score_at(task, decision, agreed, index) for index, decision in enumerate(self._dense))
        right = sum(scores, Score())
        self.showed_something = right.total > 0
        if not tells(task, right):
            kept = False
            self._forget_answers()
        for trial in self._trials:
            if trial.pause:
                trial.pause -= 1
            elif trial.answers:
                trial.judge(task, self._dense, agreed, max_loss, full_ms)
        fit = [trial for trial in self._trials if trial.is_fit] if kept else []
        if fit:
            best = min(fit, key=lambda trial: trial.milliseconds)
            self.chosen, self.booked, self.milliseconds = best.backend, best.booked, best.milliseconds
        self._dense.clear()
        if before is not self.chosen:
            self._say(full_ms)

    def _say(self, full_ms: float) -> None:
        if self.chosen is None:
            _log.info("frames are computed in float32 again, in %.1f ms", full_ms)
            return
        _log.info(
            "frames between bursts are computed by %s in %.1f ms, as it keeps the promise (float32: %.1f ms)",
            self.chosen.name, self.milliseconds, full_ms,
        )  # fmt: skip


class _Trial:
    """One backend on trial, and what is known about it.

    Attributes:
        answers: the answers to frames of the current burst, by index: decisions with their milliseconds.
        pause: for how many more bursts it is not run.
        loses_little: whether it loses little, as far as is known.
        is_fit: whether it may compute frames, according to the last burst.
        overlooks_nothing: whether it may keep a lookout, according to the last burst in which it ran.
        booked, milliseconds: see :class:`LowerPrecision`.
    """

    def __init__(self, backend: DenseBackend) -> None:
        self.backend = backend
        self.answers: dict[int, tuple[Any, float]] = {}
        self.pause = 0
        self.loses_little = True
        self.is_fit = self.overlooks_nothing = False
        self.booked = 1.0
        self.milliseconds = math.nan
        self._next_pause = _NOT_AGAIN
        self._scores: deque[list[tuple[Score, Score]]] = deque(maxlen=_MEMORY)  # ours and dense, frame by frame

    def start_anew(self) -> None:
        """Forget all findings about the backend."""
        self.is_fit, self.loses_little, self.pause, self._next_pause = False, True, 0, _NOT_AGAIN
        self.overlooks_nothing = False
        self._scores.clear()

    def judge(self, task: Task[Any], dense: list[Any], agreed: list[Any], max_loss: float, full_ms: float) -> None:
        """Judge the answers to a burst by the consensus on its frames, together with those to earlier bursts."""
        scores = [
            (score_at(task, decision, agreed, index), score_at(task, dense[index], agreed, index))
            for index, (decision, _) in self.answers.items()
        ]
        self.milliseconds = float(np.median([took_ms for _, took_ms in self.answers.values()]))
        is_faster = self.milliseconds <= CLEARLY * full_ms
        overlooked = (
            task.presence(decision) == 0 and task.presence(dense[index]) >= _PRESENT
            for index, (decision, _) in self.answers.items()
        )
        self.overlooks_nothing = is_faster and self.backend.precision is not DensePrecision.INT8 and not any(overlooked)
        self.answers.clear()
        self._scores.append(scores)
        all_scores = [each for of_burst in self._scores for each in of_burst]
        decided = sum(dense.total for _, dense in all_scores)
        surely = loss_with_error(all_scores, errors=1 + 1 / len(self._scores))  # a single burst misleads most easily
        self.booked = max(_LEAST, share_of(surely, max_loss))
        seems = share_of(loss_with_error(all_scores, errors=0.0), max_loss)
        kept_now = loss_with_error(scores, errors=0.0).within(max_loss)
        self.loses_little = kept_now and self.booked <= MOST
        is_open = kept_now and seems <= MOST and len(self._scores) < _DOUBTS  # more bursts may show it
        self.is_fit = self.loses_little and is_faster and decided >= FEWEST_DECISIONS
        if self.is_fit:
            self._next_pause = _NOT_AGAIN
        elif not (is_faster and (self.loses_little or is_open)):  # if not, the trial goes on until enough was decided
            self.pause, self._next_pause = self._next_pause, 2 * self._next_pause
            self._scores.clear()


def loss_with_error(scores: list[tuple[Score, Score]], errors: float = 1.0) -> Loss:
    """Compute the loss plus so many of its standard errors, from (ours, dense) frame by frame."""
    ours, dense = (sum(each, Score()) for each in zip(*scores, strict=True))
    loss = Loss.of(ours, dense)
    whole = [(theirs.right - own.right, theirs.total) for own, theirs in scores]
    moving = [(theirs.moving_right - own.moving_right, theirs.moving_total) for own, theirs in scores]
    return Loss(
        whole=loss.whole + errors * _standard_error(whole), moving=loss.moving + errors * _standard_error(moving)
    )


def share_of(loss: Loss, max_loss: float) -> float:
    """Return the share of the promise that a loss uses up, 0 to infinity: whole or where things move, the larger."""
    worst = max(loss.whole, loss.moving / MOVING_ALLOWANCE, 0.0)
    return worst / max_loss if max_loss > 0 else (math.inf if worst else 0.0)


def _standard_error(missed: list[tuple[float, float]]) -> float:
    parts, totals = np.array(missed, np.float64).T
    return float(ratio_error(parts, totals))
