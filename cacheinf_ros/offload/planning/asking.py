# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Decides when the scheduler is asked about a frame, and whether the server's rows are waited for."""

from __future__ import annotations

from cacheinf_ros.offload.planning.planner import Choice

_BY_FAR = 1.3  # alone is best by far where every other way takes at least this many times as long
_CALM, _MOST_SKIPPED = 10, 9  # one more frame is skipped for each 10 such answers in a row, up to 9 frames
_MOST_UNAWAITED = 3  # frames in a row that are not waited for


class Asking:
    """Limits what sharing costs a robot that computes alone; for one thread at a time.

    Asking takes about a millisecond, so that not every frame is asked about where computing alone has long been best by
    far. And a frame for which the server lacks so much that it would end later than alone is computed here as well: the
    next frame is shared.
    """

    def __init__(self) -> None:
        self._calm = self._left = self._skipped = self._unawaited = 0
        self._epoch = -1

    def skips(self) -> bool:
        """Tell whether the next frame is computed alone without asking."""
        if self._left == 0:
            return False
        self._left -= 1
        self._skipped += 1
        return True

    @property
    def frames(self) -> int:
        """How many frames have passed since the scheduler was asked, the next one included."""
        return 1 + self._skipped

    def awaits(self, choice: Choice, epoch: int) -> bool:
        """Take note of the scheduler's answer, and return whether rows of the server are waited for.

        Where the server lacks as much again and again, as with a camera that moves a lot, every fourth such frame
        waits.

        Args:
            choice: the scheduler's answer.
            epoch: the epoch of the session; with a new one the server has nothing.
        """
        is_calm = choice.partition is None and choice.lead >= _BY_FAR
        self._calm = self._calm + 1 if is_calm else 0
        self._left, self._skipped = min(self._calm // _CALM, _MOST_SKIPPED), 0
        if choice.is_settled or epoch != self._epoch:
            self._unawaited = 0
        self._epoch = epoch
        if choice.partition is None:
            return False
        is_worth_it = choice.predicted_ms <= (1 + choice.slower) * choice.alone_ms
        if choice.is_settled or is_worth_it or self._unawaited == _MOST_UNAWAITED:
            self._unawaited = 0
            return True
        self._unawaited += 1
        return False
