# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The canvas: the picture that the cache stands for, in its own place, and how it is seen from the last frame."""

from __future__ import annotations

import numpy as np

from cacheinf_ros.cache_map import Drift, Motion
from cacheinf_ros.engine.buffers import overlap
from cacheinf_ros.engine.following import Mask, Size

MOST_DISTORTED = 0.03
"""Largest distortion, of the diagonal, beside the shift."""
NO_SHIFT = (0, 0)
_FAR = 0.75  # units of shift after which the canvas is moved: more than half of one, lest a tremor moves it to and fro
_FAR_SHARE = 0.03  # of a side, if that is more: moving costs time, and the strip that is not seen till then is narrow
_LARGEST_UNIT = 0.25  # of a side


class Canvas:
    """Follows the camera: where the canvas lies in the frame, and which part of it has never been seen.

    Attributes:
        size: (height, width) of the model's input.
        motion: canvas -> last frame, in pixels of the model's input.
        limit: distortion from which on the cache is computed anew; an audit may shorten it.
    """

    def __init__(self, size: Size, unit: Size | None) -> None:
        """``unit``: see :func:`shift_unit`; None: the canvas is never moved."""
        self.size = size
        usable = unit is not None and all(u <= _LARGEST_UNIT * side for u, side in zip(unit, size, strict=True))
        self._unit = unit if usable else None
        self._unseen: Mask = np.zeros(size, np.uint8)
        self._has_unseen = False
        self.limit = MOST_DISTORTED
        self.restart()

    @property
    def is_frame(self) -> bool:
        """Whether the canvas lies where the frame does, and all of it has been seen."""
        return self.motion.is_none and self.unseen is None

    def restart(self) -> None:
        """The canvas is the frame."""
        self.motion = Motion.none()
        self._unseen[:] = 0
        self._has_unseen = False

    def follow(self, motion: Motion) -> tuple[int, int] | None:
        """Take note of how the camera has moved since the last frame.

        Args:
            motion: last frame -> this one, in pixels of the model's input.

        Returns:
            (dx, dy), whole pixels by which everything cached is to be moved right and down first, mostly (0, 0);
            None: the camera got too far, compute everything anew.
        """
        if motion.is_none:
            return NO_SHIFT
        moved = self.motion.then(motion)
        drift = Drift.of(moved, self.size)
        shift = self._shift(drift.shift)
        rest = np.hypot(drift.shift[0] - shift[0], drift.shift[1] - shift[1]) / np.hypot(*self.size)
        if drift.distortion > self.limit or (self._unit is None and rest > self.limit):
            return None
        if any(abs(part) >= side for part, side in zip(shift[::-1], self.size, strict=True)):
            return None
        self.motion = Motion.translation(-shift[0], -shift[1]).then(moved)
        if shift != NO_SHIFT:
            self._expose(*shift)
        return shift

    @property
    def unseen(self) -> Mask | None:
        """uint8 [height, width]: what no frame has shown yet; whoever paints the canvas clears it. None: nothing."""
        self._has_unseen = self._has_unseen and bool(self._unseen.any())
        return self._unseen if self._has_unseen else None

    def _shift(self, centre: tuple[float, float]) -> tuple[int, int]:
        """Whole units by which the centre has moved, where it has moved far."""
        if self._unit is None:
            return NO_SHIFT
        steps = [
            round(moved / unit) * unit if abs(moved) > max(_FAR * unit, _FAR_SHARE * side) else 0
            for moved, unit, side in zip(centre, self._unit[::-1], self.size[::-1], strict=True)
        ]
        return steps[0], steps[1]

    def _expose(self, dx: int, dy: int) -> None:
        """What moves in was never seen."""
        unseen = np.ones_like(self._unseen)
        before, after = overlap(self.size, dx, dy)
        unseen[after] = self._unseen[before]
        self._unseen, self._has_unseen = unseen, True
