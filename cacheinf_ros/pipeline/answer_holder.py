# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Holds the last answer while it stands, and keeps the promised loss by means of bursts of densely computed frames.

A burst shows what is right (the consensus of neighbouring dense frames), how much of it the present limits would have
lost, and which limits are better (:mod:`cacheinf_ros.pipeline.holding`). It also shows what the cached engine's own
answers lose, where it gets these. Between bursts the limits follow what computed answers say about the held ones before
them (:mod:`cacheinf_ros.pipeline.surprises`), and where limits alone cannot be relied on, no more answers are held than
is affordable (:mod:`cacheinf_ros.pipeline.affordable`). Whatever the limits are, an object that comes into a picture at
rest causes a frame to be computed (:mod:`cacheinf_ros.pipeline.newcomers`). Before the first burst nothing is held.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cacheinf_ros.engine.decisions import FEWEST_DECISIONS, Loss, Score, Task, tells
from cacheinf_ros.pipeline.affordable import AffordableShare
from cacheinf_ros.pipeline.burst import Burst
from cacheinf_ros.pipeline.holding import NEVER, Holding, best_holding, uncertainty
from cacheinf_ros.pipeline.newcomers import Newcomers, moves
from cacheinf_ros.pipeline.picture_change import ChangeMeter
from cacheinf_ros.pipeline.surprises import Surprises

Image = NDArray[np.uint8]
_FIRST_FRAMES, _FRAMES = 24, 16  # in the first burst, before which nothing is known, and in later ones
_FIRST_WAIT, _LONGEST_WAIT = 120, 960  # frames between two bursts; doubled while the promise is kept
_LEAST_WAIT = 60  # frames, where most are computed anyway and judging them costs little
_LONGEST_REST = 8  # times the least wait, where burst after burst finds that nothing can be held
_MEMORY = 12  # bursts from which the limits are derived


@dataclass(frozen=True, slots=True, kw_only=True)
class LossReport:
    """The findings of one burst.

    Attributes:
        measured: the loss of the limits in use when the burst began, so that they are not judged by their own data.
        uncertain: half of the width of its 95 % confidence interval.
        kept: whether the measured loss was within the promise; always where losses mean nothing.
        holding: the limits from now on.
        engine: the loss of the cached engine's own answers; None: there were none.
        moved: how many decisions of the burst lie where things move.
        dense_right: the share of right decisions of dense execution.
        tells: whether that is enough for losses to mean anything (:attr:`Task.least_right`); if not, nothing is held.
    """

    measured: Loss
    uncertain: Loss
    kept: bool
    holding: Holding
    engine: Loss | None
    moved: float
    dense_right: float
    tells: bool


class AnswerHolder:
    """Decides for each frame whether the last answer stands. For one thread at a time.

    Attributes:
        max_loss: the promise: how much less often than dense execution an answer may be right.
        report: what the last burst showed; None before the first.
        bursts, broken: how many bursts there were, and how many of them showed a broken promise.
    """

    def __init__(self, task: Task[Any], input_size: tuple[int, int], max_loss: float) -> None:
        """Begin with the first burst; ``input_size``: (height, width) of the model's input."""
        self.max_loss = max_loss
        self.report: LossReport | None = None
        self.bursts = self.broken = 0
        self._least_wait = _LEAST_WAIT
        self._rest = 1  # factor of the least wait
        self._task = task
        self._meter = ChangeMeter(input_size)
        self._evidence: deque[Burst[Any]] = deque(maxlen=_MEMORY)
        self._tells = True  # whether the losses of the last burst mean anything
        self._burst: Burst[Any] | None = Burst(task, self._meter)
        self._of_engine: list[Any] = []
        self._wanted = _FIRST_FRAMES
        self._wait = _FIRST_WAIT
        self._holding = NEVER
        self._surprises = Surprises()
        self._false_alarm = False  # whether the last burst kept the promise by limits that had been refuted
        self._affordable = AffordableShare()
        self._newcomers = Newcomers()
        self._moving = 0  # frames of the burst in which the whole picture changes
        self._camera_moves = False  # whether it did in most of the last burst
        self._shown: Image | None = None  # thumbnail of the frame at hand
        self._answered: Image | None = None  # thumbnail of the frame that the last answer was computed for
        self._last: Any = None  # what that answer decides
        self._held = 0  # frames in a row that the last answer was held for
        self._within_limits = False  # whether the change of the frame at hand is
        self._frames_since = self._held_since = 0  # frames, and held ones, since the last burst

    @property
    def wants_dense(self) -> bool:
        """Whether the frame at hand is part of a burst and so must be computed densely."""
        return self._burst is not None

    @property
    def burst_frames(self) -> int:
        """The number of frames computed so far in the current burst; 0 outside of bursts."""
        return 0 if self._burst is None else len(self._burst)

    @property
    def holding(self) -> Holding:
        """The limits that the bursts found."""
        return self._holding

    @property
    def scale(self) -> float:
        """The factor by which these limits are scaled now: what held answers missed makes it smaller."""
        return self._surprises.scale

    def promise(self, max_loss: float) -> None:
        """Promise another loss from now on; a smaller one has new limits derived from the bursts."""
        if max_loss < self.max_loss and self._evidence:
            self._holding = self._best_holding(max_loss)
            self._false_alarm = False
        if max_loss != self.max_loss and self._evidence:
            self._learn(max_loss)
        self.max_loss = max_loss

    def stands(self, image: Image) -> bool:
        """Tell whether the last answer stands for the next frame, uint8 [height, width, 3]; if not, compute it."""
        if self._burst is None and self._burst_is_due:
            self._burst, self._of_engine = Burst(self._task, self._meter), []
        self._frames_since += 1
        self._affordable.next_frame()
        if self._burst is None and self._holding.limit is None:  # nothing is held: no need to look
            self._shown = None
            self._newcomers.forget()
            return False
        self._shown = self._meter.thumbnail(image)
        if self._answered is None:
            return False
        change, places = self._meter.compare(self._answered, self._shown)
        something_new = self._newcomers.see(places)  # in bursts as well, to be up to date when they end
        limit = self._holding.limit
        if self._burst is not None:
            self._moving += moves(places)
            return False
        if limit is None:
            return False
        self._within_limits = change.within(self._surprises.scaled(limit))
        if something_new or not self._within_limits or not self._affordable.take(self._held, change):
            return False
        self._held += 1
        self._held_since += 1
        return True

    def computed(self, decision: Any, by_engine: Any = None) -> LossReport | None:
        """Take the answer that was computed for the frame at hand.

        Args:
            decision: what the answer decides; in a burst, that of dense execution.
            by_engine: what the cached engine decides, where it ran beside dense execution.

        Returns:
            what the burst showed, where this was its last frame; else None.
        """
        if self._burst is None and self._holding.limit is not None and self._answered is not None:
            late = self._task.score(self._last, decision, None)
            self._surprises.see(late, self._held + 1, within_limits=self._within_limits)
        self._answered, self._last, self._held = self._shown, decision, 0
        if self._burst is None:
            return None
        assert self._shown is not None
        self._burst.add(self._shown, decision)
        if by_engine is not None:
            self._of_engine.append(by_engine)
        return self._judge(self._burst) if len(self._burst) >= self._wanted else None

    def lost(self, *, is_interrupted: bool = False) -> None:
        """Forget the last answer.

        Args:
            is_interrupted: somebody else has answered frames since: a burst in progress is given up until another is
                due, as it might never end; the first one, before which nothing is known, goes on. Otherwise the stream
                began anew or a frame failed, and a burst in progress starts over.
        """
        self._answered = None
        self._newcomers.forget()
        if self._burst is None or (is_interrupted and not self.bursts):
            return
        self._burst, self._of_engine, self._moving = Burst(self._task, self._meter), [], 0
        if is_interrupted:
            self._burst, self._frames_since, self._held_since = None, 0, 0

    def look_soon(self) -> None:
        """Have the next burst as soon as after the first one, because there is something new to judge."""
        self._wait, self._rest, self._false_alarm = _FIRST_WAIT, 1, False

    def rest(self) -> None:
        """Hold nothing until the next burst, because looking at each picture costs more than held answers save."""
        self._holding = NEVER

    def space_bursts(self, frames: float) -> None:
        """Leave at least so many frames between two bursts, within the usual bounds, because bursts cost time."""
        self._least_wait = min(max(_LEAST_WAIT, math.ceil(frames)), _FIRST_WAIT)

    @property
    def _burst_is_due(self) -> bool:
        """Whether it is time for a burst: the fewer frames are held the sooner, and soon where limits fail."""
        frames = self._frames_since
        if self._surprises.refuted and not self._false_alarm:
            return frames >= self._least_wait
        return frames >= self._rest * self._least_wait and frames >= self._wait * min(
            1.0, 2 * self._held_since / frames
        )

    def _judge(self, burst: Burst[Any]) -> LossReport:
        limit = self._holding.limit
        dense = burst.scores(range(len(burst)))
        answers = burst.held(None if limit is None else self._surprises.scaled(limit))
        ours = burst.scores(answers)
        right = sum(dense, Score())
        self._tells = tells(self._task, right)
        measured = Loss.of(sum(ours, Score()), right)
        kept = not self._tells or measured.within(self.max_loss)  # where losses mean nothing, none breaks it
        engine = burst.loss_of(self._of_engine) if self._tells and len(self._of_engine) == len(burst) else None
        burst.forget_decisions()
        self._wait = min(2 * self._wait, _LONGEST_WAIT) if kept and limit is not None else _FIRST_WAIT
        shows = self._tells and answers != list(range(len(burst)))  # where nothing is held, nothing can be lost
        self._false_alarm = self._surprises.refuted and shows and kept
        self._surprises.believe()
        if self._tells:
            self._evidence.append(burst)
        self._camera_moves = 2 * self._moving > self._wanted
        self._holding = self._best_holding(self.max_loss)
        self._learn(self.max_loss)
        is_fruitless = self.bursts > 0 and limit is None and self._holding.limit is None
        self._rest = min(2 * self._rest, _LONGEST_REST) if is_fruitless else 1
        self.bursts += 1
        self.broken += not kept
        self._burst, self._of_engine = None, []
        self._wanted, self._moving = _FRAMES, 0
        self._frames_since = self._held_since = 0
        self.report = LossReport(
            measured=measured,
            uncertain=uncertainty(ours, dense),
            kept=kept,
            holding=self._holding,
            engine=engine,
            moved=right.moving_total,
            dense_right=right.whole,
            tells=self._tells,
        )
        return self.report

    def _best_holding(self, max_loss: float) -> Holding:
        """Find the limits for a promise; none where the last burst's losses mean nothing."""
        return best_holding(self._evidence, max_loss) if self._tells else NEVER

    def _learn(self, max_loss: float) -> None:
        """Derive what goes on between bursts from what they showed."""
        self._surprises.learn(self._evidence, max_loss, camera_moves=self._camera_moves)
        is_blind = self._task.tells_motion and self._surprises.moved < FEWEST_DECISIONS
        if self._surprises.many_decisions:
            self._affordable.learn(self._holding, max_loss)
        else:
            self._affordable.learn_nothing()
        self._affordable.expect_changes(max_loss if is_blind else None)
