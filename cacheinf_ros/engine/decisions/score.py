# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Scores, how often answers are right over a number of frames, and losses, how much less often than others."""

from __future__ import annotations

from dataclasses import dataclass

from cacheinf_ros.engine.counts import Counts


@dataclass(frozen=True, slots=True, kw_only=True)
class Score(Counts):
    """Counts of decisions over any number of frames.

    Attributes:
        right, total: decisions that are right, and all of them: pixels, classes or (twice) boxes. A box with a mask or
            key points is right in part.
        moving_right, moving_total: the same counts where the consensus moves.
    """

    right: float = 0.0
    total: float = 0.0
    moving_right: float = 0.0
    moving_total: float = 0.0

    @property
    def whole(self) -> float:
        """The share of right decisions, 0 to 1; 1 where there was nothing to decide."""
        return self.right / self.total if self.total else 1.0

    @property
    def moving(self) -> float | None:
        """The share of right decisions where the consensus moves; None where it never did."""
        return self.moving_right / self.moving_total if self.moving_total else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """How much less often an answer is right than dense execution's; negative: more often.

    Attributes:
        whole: the loss over all decisions.
        moving: the loss where the consensus moves; 0 where it never did.
    """

    whole: float
    moving: float

    @classmethod
    def of(cls, ours: Score, dense: Score) -> Loss:
        """Compare the scores of the same frames."""
        there = 0.0 if ours.moving is None or dense.moving is None else dense.moving - ours.moving
        return cls(whole=dense.whole - ours.whole, moving=there)

    def within(self, max_loss: float) -> bool:
        """Tell whether a promise is kept: ``max_loss`` over all decisions, and 2.5 times as much where things move.

        Few decisions lie where things move, and a single frame of delay costs many of them.
        """
        return self.whole <= max_loss and self.moving <= MOVING_ALLOWANCE * max_loss

    @property
    def promise(self) -> float:
        """The least ``max_loss`` that the loss is within; 0 where nothing is lost."""
        return max(self.whole, self.moving / MOVING_ALLOWANCE, 0.0)


FEWEST_DECISIONS = 12.0
"""The number of decisions below which a loss tells next to nothing, as in an empty room; boxes count twice."""
MOVING_ALLOWANCE = 2.5
"""The loss that is allowed where the consensus moves, as a factor of ``max_loss``."""
