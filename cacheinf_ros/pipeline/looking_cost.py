# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Whether looking at each picture, to see whether the last answer stands, saves more time than it costs."""

from __future__ import annotations

_ENOUGH = 24  # frames before a verdict


class LookingCost:
    """Compares the time that looking took with what computing the frames would have taken whose answer stood."""

    def __init__(self) -> None:
        self._frames = 0
        self._looked_ms = self._saved_ms = 0.0
        self._frame_ms = 0.0  # time of the last computed frame

    @property
    def pays(self) -> bool:
        """Whether looking pays, as far as is known."""
        return self._frames < _ENOUGH or self._saved_ms >= self._looked_ms

    def looked(self, milliseconds: float, *, stands: bool) -> None:
        """Note how long looking at a frame took, and whether the last answer stood."""
        self._frames += 1
        self._looked_ms += milliseconds
        self._saved_ms += stands * self._frame_ms

    def computed(self, milliseconds: float) -> None:
        """Note how long computing a frame took."""
        self._frame_ms = milliseconds

    def forget(self) -> None:
        """Begin anew, because limits have changed."""
        self._frames, self._looked_ms, self._saved_ms = 0, 0.0, 0.0
