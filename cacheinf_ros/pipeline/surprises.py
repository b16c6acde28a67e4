# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Adapts the scale of the limits between two bursts to what computed answers say about the held ones before them.

A frame that is computed after held ones shows at no cost how far the held answer had fallen behind. Where that adds up
to more than the promise allows, limits shrink at once; while nothing is missed in frames that had changed by more, they
grow slowly. What was missed beyond the largest step down is a debt that growth pays first: a visitor who is missed once
a minute would otherwise meet wide limits again each time. So limits that a short burst found too wide, or too tight for
what comes later, do not stay. Limits under which much is missed even where they are as small as they get have failed:
smaller changes matter than any burst has shown, and a new one has to find limits for these.

The limits of a first burst, with some dozen decisions, mislead most easily: where the camera moves and something is
seen, they are halved until frames have shown that more is possible. Where the camera rests, what comes in is noticed
anyway (:mod:`cacheinf_ros.pipeline.newcomers`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from cacheinf_ros.engine.decisions import FEWEST_DECISIONS, MOVING_ALLOWANCE, Score
from cacheinf_ros.pipeline.burst import Burst
from cacheinf_ros.pipeline.picture_change import Change

_FIRST = 0.5  # scale after a first burst with a moving camera
_GROWTH = 0.01  # added to the logarithm of the scale per frame in which nothing is missed
_FALL = 0.7  # subtracted from the logarithm of the scale at one surprise, at most
_MOST_OWED = 9.6  # in logarithms of the scale: the growth of 960 frames, after which a burst comes at the latest
_LEAST, _MOST = 0.1, 4.0  # of the scale
_MOVING, _SURELY_MOVING = 0.25, 0.02  # least share of decisions assumed to lie where things move
_MANY = 1000  # decisions in a frame, as in class maps: so many that a burst's findings can be trusted
_FEW = 0.2  # decisions per frame assumed at least: a tenth of a box, as a box counts twice
_MEMORY = 100  # frames over which the usual number of decisions is averaged


class Surprises:
    """Keeps account of what held answers missed.

    Attributes:
        scale: the factor by which the limits that the bursts found are scaled.
        many_decisions: whether bursts have so many decisions that their findings can be trusted.
        moved: how many of the bursts' decisions lie where things move.
        refuted: whether answers missed much since the last burst even under limits of the smallest scale.
    """

    def __init__(self) -> None:
        self.scale = 1.0
        self.moved = 0.0
        self.refuted = False
        self._owed = 0.0  # what misses would have shrunk the logarithm of the scale by beyond _FALL, not yet paid
        self._flicker = 0.0  # decisions of a frame that differ from those of the next, on average
        self._decisions = 0.0  # usual number in a frame
        self.many_decisions = False
        self._allowed = 0.0  # share of the decisions that may be missed
        self._widest = Change(largest=0.0, mean=0.0)

    def learn(self, bursts: Sequence[Burst[Any]], max_loss: float, *, camera_moves: bool) -> None:
        """Learn from bursts how much flickers, how much there is to decide, and which changes occurred.

        What limits grew by belongs to those that were found before: an empty scene lets narrow limits grow fourfold,
        and wide ones, found when things had come in, would start at four times what any burst had allowed.

        Args:
            camera_moves: whether the whole picture changed in the last burst.
        """
        first = not self._decisions
        beside = [score for burst in bursts for score in burst.beside]
        own = [score for burst in bursts for score in burst.scores(range(len(burst)))]
        total = sum(own, Score())
        self._flicker = sum(score.total - score.right for score in beside) / max(1, len(beside))
        usual = total.total / max(1, len(own))
        self._decisions = usual if first else (self._decisions + usual) / 2
        self.moved = total.moving_total
        moving = self.moved / total.total if total.total else 0.0
        self.many_decisions = usual >= _MANY
        moving = max(moving, _SURELY_MOVING if self.many_decisions else _MOVING)
        self._allowed = max_loss * min(1.0, MOVING_ALLOWANCE * moving)
        self.scale = min(self.scale, 1.0)
        if first and camera_moves and total.total >= FEWEST_DECISIONS and not self.many_decisions:
            self.scale = _FIRST
        changes = [change for burst in bursts for change in burst.changes(len(burst))]
        self._widest = Change(
            largest=max((change.largest for change in changes), default=0.0),
            mean=max((change.mean for change in changes), default=0.0),
        )

    def believe(self) -> None:
        """Believe the limits again, because a burst has found them; they are still scaled as those before."""
        self.refuted = False

    def scaled(self, limit: Change) -> Change:
        """Return the limit to use: the scaled one, but never beyond the changes that were seen."""
        return Change(
            largest=min(self.scale * limit.largest, self._widest.largest),
            mean=min(self.scale * limit.mean, self._widest.mean),
        )

    def see(self, late: Score, frames: int, *, within_limits: bool) -> None:
        """Adapt the scale to an answer that was computed.

        Args:
            late: how right the answer before is, judged by the new one.
            frames: number of frames since that answer, the computed one included; all between count as having missed as
                much.
            within_limits: whether the frame was computed because of its answer's age, and not because of its change:
                then wider limits would not have held it, and that nothing was missed is no argument for them.
        """
        share = math.exp(-frames / _MEMORY)
        self._decisions = share * self._decisions + (1 - share) * late.total
        if self._allowed <= 0:
            return
        missed = max(0.0, late.total - late.right - self._flicker) / max(self._decisions, _FEW)
        surplus = frames - missed * (frames - 1) / self._allowed
        step = _GROWTH * (min(surplus, 0.0) if within_limits else surplus)
        self.refuted |= step < 0 and self.scale <= _LEAST
        self.scale = min(max(self.scale * math.exp(self._taken(step)), _LEAST), self._most)

    def _taken(self, step: float) -> float:
        """Return the part of a step of the logarithm that is taken now; the rest is owed, or pays what is."""
        if step < 0:
            self._owed = min(self._owed + max(0.0, -step - _FALL), _MOST_OWED)
            return max(step, -_FALL)
        paid = min(step, self._owed)
        self._owed -= paid
        return step - paid

    @property
    def _most(self) -> float:
        """The largest scale: limits from few decisions may be too tight; those from many are not scaled up."""
        return 1.0 if self.many_decisions else _MOST
