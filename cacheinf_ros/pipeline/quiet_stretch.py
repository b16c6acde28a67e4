# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Detects stretches in which nothing is to be seen: there a lower precision watches whether that is still so.

What a lower precision loses shows on objects, so an empty room says nothing about its loss
(:mod:`cacheinf_ros.pipeline.lower_precision`). But there it need not decide anything: as soon as it sees as little as a
box that counts in part, that frame and those after it are computed in float32.
"""

from __future__ import annotations

_ENOUGH = 4  # consecutive frames that show nothing, until a stretch begins
_MOST = 64  # of them at most, as short stretches double the number
_SHORT = 8  # frames: a shorter stretch did not pay, as its last frame was computed twice


class QuietStretch:
    """Tells whether nothing has been seen for a while. For one thread at a time.

    Attributes:
        is_on: whether nothing was seen for long enough.
    """

    def __init__(self) -> None:
        self.is_on = False
        self._frames = 0  # in a row that showed nothing
        self._enough = _ENOUGH

    def computed(self, *, is_empty: bool) -> None:
        """Note that a frame was computed; ``is_empty``: nothing was seen in it, in whatever precision."""
        if is_empty:
            self._frames += 1
            self.is_on = self._frames >= self._enough
            return
        if self.is_on:
            was_short = self._frames - self._enough < _SHORT
            self._enough = min(2 * self._enough, _MOST) if was_short else _ENOUGH
        self.forget()

    def forget(self) -> None:
        """End the stretch, and count anew."""
        self.is_on, self._frames = False, 0
