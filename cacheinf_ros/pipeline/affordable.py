# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""How many answers may be held: in class maps each costs about the same, however calm the picture is.

At the edges of what drives, pixels change their class in every frame, so a held class map is wrong there after one
frame. Limits that a burst found in a busy minute hold every second frame of a calm one, at the same loss where things
move. So the share of the frames that is held is kept near the share for which the bursts showed the loss.
"""

from __future__ import annotations

from cacheinf_ros.pipeline.holding import Holding

_MORE = 1.5  # times the share that bursts showed, at most: what they lost may have been luck
_SAVED_UP = 5.0  # frames


class AffordableShare:
    """Lets so many of the frames be held, and saves up a few of them."""

    def __init__(self) -> None:
        self._share: float | None = None  # None: as many as limits allow
        self._saved = 0.0  # frames that may be held

    def learn(self, holding: Holding, max_loss: float) -> None:
        """Take over how many frames the limits held in bursts, and what that cost."""
        promise = holding.loss.promise
        factor = min(_MORE, max(1.0, max_loss / promise)) if promise else _MORE
        self._share = (1 - holding.computed) * factor
        self._saved = 0.0

    def learn_nothing(self) -> None:
        """Let as many frames be held as limits allow."""
        self._share = None

    def next_frame(self) -> None:
        """Note that a frame has come that may be held."""
        if self._share is not None:
            self._saved = min(self._saved + self._share, _SAVED_UP)

    def take(self) -> bool:
        """Whether one more frame may be held; it then is."""
        if self._share is None:
            return True
        if self._saved < 1:
            return False
        self._saved -= 1
        return True
