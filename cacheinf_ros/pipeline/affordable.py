# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Limits how many answers may be held, where limits on the picture's change cannot be relied on alone.

For class maps each held answer costs about the same, however calm the picture.

At the edges of moving vehicles, pixels change their class in every frame, so a held class map is wrong there after one
frame. Limits found by a burst in a busy minute would hold every second frame of a calm one, at the same loss where
things move. So the share of held frames is kept near the share for which the bursts measured the loss.

Where the bursts showed next to nothing that moves, nothing is known of what a held answer costs where things move: not
losing what there was not is no evidence. A moving camera hides what comes into its picture, and a person whose hands
have moved for a while may take something into them. There as many answers are held, each for one frame, as keep the
promise even if the picture's change says nothing. Where nothing changes visibly the limits decide alone.
"""

from __future__ import annotations

from cacheinf_ros.engine.decisions import MOVING_ALLOWANCE, RADIUS
from cacheinf_ros.pipeline.burst import LONGEST
from cacheinf_ros.pipeline.holding import Holding
from cacheinf_ros.pipeline.newcomers import NOTICED
from cacheinf_ros.pipeline.picture_change import Change

_MORE = 1.5  # at most this many times the share seen in bursts: their low loss may have been luck
_SAVED_UP = 5  # frames


class AffordableShare:
    """Lets a given share of the frames be held, and saves up the allowance of a few frames."""

    def __init__(self) -> None:
        self._of_all: _Allowance | None = None  # None: as many frames as limits allow
        self._of_changing: _Allowance | None = None  # of frames in which something changes visibly

    def learn(self, holding: Holding, max_loss: float) -> None:
        """Learn from bursts which share of the frames the limits held, and at which loss."""
        promise = holding.loss.promise
        factor = min(_MORE, max(1.0, max_loss / promise)) if promise else _MORE
        self._of_all = _Allowance((1 - holding.computed) * factor, most=_SAVED_UP)

    def learn_nothing(self) -> None:
        """Let as many frames be held as limits allow."""
        self._of_all = None

    def expect_changes(self, max_loss: float | None) -> None:
        """Hold an answer for one frame only where something changes visibly, and so few that the promise is kept.

        A decision that changes counts as moving for :data:`RADIUS` frames; an answer held at its first one misses one.

        Args:
            max_loss: what is promised; None: the limits tell where decisions change.
        """
        self._of_changing = None if max_loss is None else _Allowance(MOVING_ALLOWANCE * max_loss * RADIUS, most=1)

    def next_frame(self) -> None:
        """Add the next frame's share to the allowance of frames that may be held."""
        for allowance in (self._of_all, self._of_changing):
            if allowance is not None:
                allowance.add()

    def take(self, held: int, change: Change) -> bool:
        """Tell whether an answer may be held for one more frame, and if so take that from the allowance.

        Args:
            held: the number of frames in a row that it was held for already.
            change: how the frame differs from the one that was answered.
        """
        of_changing = self._of_changing if change.largest > NOTICED else None
        allowances = [each for each in (self._of_all, of_changing) if each is not None]
        longest = LONGEST if of_changing is None else 1
        if held >= longest or not all(each.allows for each in allowances):
            return False
        for each in allowances:
            each.take()
        return True


class _Allowance:
    """The number of frames that may be held, to which each frame adds its share."""

    def __init__(self, share: float, *, most: int) -> None:
        self._frames = 0.0
        self._share, self._most = share, most

    @property
    def allows(self) -> bool:
        return self._frames >= 1

    def add(self) -> None:
        self._frames = min(self._frames + self._share, self._most)

    def take(self) -> None:
        self._frames -= 1
