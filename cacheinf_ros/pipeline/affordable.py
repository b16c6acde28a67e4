# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Limits how many answers may be held, where limits on the picture's change cannot be relied on alone.

For class maps each held answer costs about the same, however calm the picture.

At the edges of moving vehicles, pixels change their class in every frame, so a held class map is wrong there after one
frame. Limits found by a burst in a busy minute would hold every second frame of a calm one, at the same loss where
things move. So the share of held frames is kept near the share for which the bursts measured the loss.

Where the camera moves and the bursts showed next to nothing that moves, nothing is known of what a held answer costs
where things move: not losing what there was not is no evidence, and a moving picture hides what comes into it. There as
many answers are held, each for one frame, as keep the promise even if the picture's change says nothing.
"""

from __future__ import annotations

from cacheinf_ros.engine.decisions import MOVING_ALLOWANCE, RADIUS
from cacheinf_ros.pipeline.burst import LONGEST
from cacheinf_ros.pipeline.holding import Holding

_MORE = 1.5  # at most this many times the share seen in bursts: their low loss may have been luck
_SAVED_UP = 5.0  # frames


class AffordableShare:
    """Lets a given share of the frames be held, and saves up the allowance of a few frames.

    Attributes:
        longest: the number of frames in a row for which an answer may be held.
    """

    def __init__(self) -> None:
        self.longest = LONGEST
        self._share: float | None = None  # None: as many as limits allow
        self._saved = 0.0  # frames that may be held

    def learn(self, holding: Holding, max_loss: float) -> None:
        """Learn from bursts which share of the frames the limits held, and at which loss."""
        promise = holding.loss.promise
        factor = min(_MORE, max(1.0, max_loss / promise)) if promise else _MORE
        self._share = (1 - holding.computed) * factor
        self._saved, self.longest = 0.0, LONGEST

    def learn_nothing(self) -> None:
        """Let as many frames be held as limits allow."""
        self._share, self.longest = None, LONGEST

    def expect_changes(self, max_loss: float) -> None:
        """Let only so many frames be held that the promise is kept wherever in the stream a decision changes.

        A decision that changes counts as moving for :data:`RADIUS` frames; an answer held at its first one misses one.
        Call this after :meth:`learn` or :meth:`learn_nothing`: what these found still limits the share.
        """
        share = MOVING_ALLOWANCE * max_loss * RADIUS
        self._share = share if self._share is None else min(share, self._share)
        self._saved, self.longest = min(self._saved, 1.0), 1

    def next_frame(self) -> None:
        """Add the next frame's share to the allowance of frames that may be held."""
        if self._share is not None:
            self._saved = min(self._saved + self._share, _SAVED_UP)

    def take(self) -> bool:
        """Tell whether one more frame may be held, and if so take it from the allowance."""
        if self._share is None:
            return True
        if self._saved < 1:
            return False
        self._saved -= 1
        return True
