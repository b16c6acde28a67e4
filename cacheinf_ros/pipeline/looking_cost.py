# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Whether looking at each picture, to see whether the last answer stands, saves more time than it takes."""

from __future__ import annotations

_ENOUGH = 24  # frames to see it by


class LookingCost:
    """Compares what looking took with what frames whose answer stood would have taken."""

    def __init__(self) -> None:
        self._frames = 0
        self._looked_ms = self._saved_ms = 0.0
        self._frame_ms = 0.0  # what the last frame took that was computed

    @property
    def pays(self) -> bool:
        """Whether it does, as far as is known."""
        return self._frames < _ENOUGH or self._saved_ms >= self._looked_ms

    def looked(self, milliseconds: float, *, stands: bool) -> None:
        """Note what looking at a frame took, and whether the last answer stood."""
        self._frames += 1
        self._looked_ms += milliseconds
        self._saved_ms += stands * self._frame_ms

    def computed(self, milliseconds: float) -> None:
        """Note what computing a frame took."""
        self._frame_ms = milliseconds

    def forget(self) -> None:
        """Begin anew: limits have changed."""
        self._frames, self._looked_ms, self._saved_ms = 0, 0.0, 0.0
