# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""What computed answers say about the held ones before them: the limits' scale follows it between two bursts.

A frame that is computed after held ones shows at no cost how far the held answer had fallen behind. Where that adds up
to more than the promise allows, limits shrink at once; while nothing is missed in frames that had changed by more, they
grow, slowly. So limits that a short burst found too wide, or too tight for what comes later, do not stay. Those of a
first burst, of some dozen decisions, deceive most easily: where the camera moves and something is seen half of them
counts until frames have shown that more may. Where it rests, what comes in is seen anyway
(:mod:`cacheinf_ros.pipeline.newcomers`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from cacheinf_ros.engine.decisions import FEWEST_DECISIONS, MOVING_ALLOWANCE, Score
from cacheinf_ros.pipeline.burst import Burst
from cacheinf_ros.pipeline.picture_change import Change

_FIRST = 0.5  # scale of the limits that a first burst found with a moving camera
_GROWTH = 0.01  # of the logarithm of the scale per frame in which nothing is missed
_FALL = 0.7  # of the same at one surprise, at most
_LEAST, _MOST = 0.1, 4.0  # of the scale
_MOVING, _SURELY_MOVING = 0.25, 0.02  # share of the decisions that lie where things move, at least
_MANY = 1000  # decisions in a frame, as in class maps: what a burst shows of them can be believed
_FEW = 0.2  # decisions per frame, at least: a tenth of a box, which counts twice, is next to nothing
_MEMORY = 100  # frames that the usual number of decisions is a mean over


class Surprises:
    """Keeps account of what held answers missed.

    Attributes:
        scale: of the limits that the bursts found.
        many_decisions: whether bursts show so many that what they show can be believed.
    """

    def __init__(self) -> None:
        self.scale = 1.0
        self._flicker = 0.0  # decisions of a frame that differ from those of the next, on average
        self._decisions = 0.0  # in a frame, usually
        self.many_decisions = False
        self._allowed = 0.0  # share of the decisions that may be missed
        self._widest = Change(largest=0.0, mean=0.0)

    def learn(self, bursts: Sequence[Burst[Any]], max_loss: float, *, camera_moves: bool) -> None:
        """Take over what bursts show: how much flickers, how much there is to decide, and what changes they saw.

        What limits grew by belongs to those that were found before: an empty scene lets narrow ones grow fourfold, and
        wide ones, found when things had come in, would start at four times what any burst had allowed.

        Args:
            camera_moves: whether the picture changed as a whole in the last burst.
        """
        first = not self._decisions
        beside = [score for burst in bursts for score in burst.beside]
        own = [score for burst in bursts for score in burst.scores(range(len(burst)))]
        total = sum(own, Score())
        self._flicker = sum(score.total - score.right for score in beside) / max(1, len(beside))
        usual = total.total / max(1, len(own))
        self._decisions = usual if first else (self._decisions + usual) / 2
        moving = total.moving_total / total.total if total.total else 0.0
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

    def scaled(self, limit: Change) -> Change:
        """The limit to use: never beyond the changes that were seen."""
        return Change(
            largest=min(self.scale * limit.largest, self._widest.largest),
            mean=min(self.scale * limit.mean, self._widest.mean),
        )

    def see(self, late: Score, frames: int, *, within_limits: bool) -> None:
        """A frame was computed.

        Args:
            late: how right the answer before is, judged by the new one.
            frames: since that answer's, the computed one included; all before it are taken to have missed as much.
            within_limits: whether it was for its age, and not because it had changed: then wider limits would not have
                held it, and that nothing was missed does not speak for them.
        """
        share = math.exp(-frames / _MEMORY)
        self._decisions = share * self._decisions + (1 - share) * late.total
        if self._allowed <= 0:
            return
        missed = max(0.0, late.total - late.right - self._flicker) / max(self._decisions, _FEW)
        surplus = frames - missed * (frames - 1) / self._allowed
        step = max(_GROWTH * (min(surplus, 0.0) if within_limits else surplus), -_FALL)
        self.scale = min(max(self.scale * math.exp(step), _LEAST), self._most)

    @property
    def _most(self) -> float:
        """Limits that were found on few decisions may prove too tight; others only too wide for what came later."""
        return 1.0 if self.many_decisions else _MOST
