# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Stretches in which nothing is to be seen: there a lower precision looks whether that is still so.

What a lower precision loses shows on things, so that an empty room says nothing of it
(:mod:`cacheinf_ros.pipeline.lower_precision`). But there it need not decide anything: as soon as it sees as little as a
box that counts in part, that frame is computed in float32, and so are those after it.
"""

from __future__ import annotations

_ENOUGH = 4  # frames in a row that show nothing, until a stretch begins
_MOST = 64
_SHORT = 8  # frames of a stretch that did not pay: its last frame was computed twice


class QuietStretch:
    """Says whether it is quiet. For one thread at a time.

    Attributes:
        is_on: whether nothing was seen for long enough.
    """

    def __init__(self) -> None:
        self.is_on = False
        self._frames = 0  # in a row that showed nothing
        self._enough = _ENOUGH

    def computed(self, *, is_empty: bool) -> None:
        """A frame was computed; ``is_empty``: nothing was seen in it, in whatever precision."""
        if is_empty:
            self._frames += 1
            self.is_on = self._frames >= self._enough
            return
        if self.is_on:
            was_short = self._frames - self._enough < _SHORT
            self._enough = min(2 * self._enough, _MOST) if was_short else _ENOUGH
        self.forget()

    def forget(self) -> None:
        """Begin anew: what was seen is not known."""
        self.is_on, self._frames = False, 0
