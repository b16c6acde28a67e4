# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""How far the camera may leave a keyframe behind, and which part of the scene the cache then stands for.

A keyframe is computed densely and becomes what later frames are compared with. :class:`KeyframePolicy` says how far the
camera may move from it, for matching (:data:`COMPARED`) and for the cache (:data:`CACHED`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from cacheinf_ros.cache_map import Motion
from cacheinf_ros.geometry.warping import visible_blocks

Area = tuple[slice, slice]  # rows, columns
Mask = NDArray[np.uint8]
Size = tuple[int, int]  # (height, width)

NO_SHIFT = (0, 0)
_NEAREST = 1e-9  # least depth of a point in front of the camera
_FAR = 0.75  # units of shift after which the window is moved: more than half, lest a tremor moves it to and fro
_FAR_SHARE = 0.03  # of a side, if that is more: moving costs time, and the strip that is unseen until then is narrow
_LARGEST_UNIT = 0.25  # of a side


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """How far an image has moved away from where it was.

    Attributes:
        shift: (dx, dy) of its centre, in pixels.
        distortion: largest movement of a corner beyond the shift, over the length of the diagonal.
    """

    shift: tuple[float, float]
    distortion: float

    @classmethod
    def of(cls, motion: Motion, size: Size) -> Drift:
        """Measure a motion of an image; distortion is infinite where a part of it is led behind the camera."""
        height, width = size
        right, bottom = width - 1.0, height - 1.0
        places = np.array([[right / 2, bottom / 2], [0, 0], [right, 0], [right, bottom], [0, bottom]])
        moved = np.column_stack([places, np.ones(5)]) @ motion.matrix.T
        if moved[:, 2].min() < _NEAREST:
            return cls(shift=(0.0, 0.0), distortion=math.inf)
        moves = moved[:, :2] / moved[:, 2:] - places
        rest = float(np.linalg.norm(moves[1:] - moves[0], axis=1).max())
        return cls(shift=(float(moves[0, 0]), float(moves[0, 1])), distortion=rest / math.hypot(height, width))


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyframePolicy:
    """How far the camera may get from a keyframe until another one starts.

    Attributes:
        most_distorted: largest distortion, see :class:`Drift`.
        most_shifted: largest shift of the centre, over the length of the diagonal.
        least_in_view: smallest share of the frame's blocks of which the keyframe shows everything.
        most_resampled: how often the keyframe may be warped into the place of a frame, which blurs it.
    """

    most_distorted: float
    most_shifted: float = math.inf
    least_in_view: float = 0.0
    most_resampled: int = 0

    def scaled(self, share: float) -> KeyframePolicy:
        """Return a policy that allows only a share of the distortion and of the shift."""
        return replace(self, most_distorted=share * self.most_distorted, most_shifted=share * self.most_shifted)

    def starts_anew(self, drift: Drift, size: Size) -> bool:
        """Tell whether a keyframe of (height, width) has drifted so far that another one must start."""
        shifted = math.hypot(*drift.shift) / math.hypot(*size)
        return drift.distortion > self.most_distorted or shifted > self.most_shifted

    def starts_anew_at(self, motion: Motion, size: Size, block_size: int) -> bool:
        """Tell whether the motion keyframe -> frame leads too far, or brings too many blocks in from outside."""
        if self.starts_anew(Drift.of(motion, size), size):
            return True
        return bool(visible_blocks(motion, size, block_size).mean() < self.least_in_view)


COMPARED = KeyframePolicy(most_distorted=0.05, least_in_view=0.95, most_resampled=8)
"""The policy for the image that matching compares frames with: it is warped into the frame's place, later dropped."""
CACHED = KeyframePolicy(most_distorted=0.03, most_shifted=0.03)
"""The policy for the model's input as the cache holds it: beyond it, the next frame is computed densely."""


class KeyframeWindow:
    """The part of the scene that the cache stands for: where it lies in the frame, and what of it was never seen.

    The window follows the camera in whole units, by which all feature maps can be moved without an error.

    Attributes:
        size: (height, width) of the model's input.
        motion: keyframe -> last frame, in pixels of the model's input.
        is_frame: whether the window lies where the frame does, and all of it has been seen.
    """

    def __init__(self, size: Size, unit: Size | None, policy: KeyframePolicy = CACHED) -> None:
        """Start at a keyframe; ``unit``: the smallest shift, (dy, dx) in pixels; None: the window is never moved."""
        self.size = size
        usable = unit is not None and all(u <= _LARGEST_UNIT * side for u, side in zip(unit, size, strict=True))
        self._unit = unit if usable else None
        self._policy = self._allowed = policy if self._unit is None else replace(policy, most_shifted=math.inf)
        self._unseen: Mask = np.zeros(size, np.uint8)
        self.restart()

    def restart(self) -> None:
        """Make the current frame the keyframe."""
        self.motion = Motion.none()
        self._unseen[:] = 0
        self._has_unseen = False
        self.is_frame = True

    def allow(self, share: float) -> None:
        """Allow only a share of the policy's distortion and shift from now on."""
        self._allowed = self._policy.scaled(share)

    def follow(self, motion: Motion) -> tuple[int, int] | None:
        """Take note of how the camera has moved since the last frame.

        Args:
            motion: last frame -> this one, in pixels of the model's input.

        Returns:
            (dx, dy), whole pixels by which everything cached is to be moved right and down first, mostly (0, 0);
            None: the camera has moved too far, and everything must be computed anew.
        """
        if motion.is_none:
            return NO_SHIFT
        moved = self.motion.then(motion)
        drift = Drift.of(moved, self.size)
        shift = self._shift(drift.shift)
        rest = (drift.shift[0] - shift[0], drift.shift[1] - shift[1])
        if self._allowed.starts_anew(replace(drift, shift=rest), self.size):
            return None
        if any(abs(part) >= side for part, side in zip(shift[::-1], self.size, strict=True)):
            return None
        self.motion = Motion.translation(-shift[0], -shift[1]).then(moved)
        if shift != NO_SHIFT:
            self._expose(*shift)
        self._settle()
        return shift

    @property
    def unseen(self) -> Mask | None:
        """uint8 [height, width]: 1 where no frame has shown the window yet; None: all of it was seen.

        Whoever paints the window clears the mask there, and calls :meth:`painted`.
        """
        return self._unseen if self._has_unseen else None

    def painted(self) -> None:
        """Take note that a frame was painted into the window."""
        self._has_unseen = self._has_unseen and bool(self._unseen.any())
        self._settle()

    def _settle(self) -> None:
        self.is_frame = self.motion.is_none and not self._has_unseen

    def _shift(self, centre: tuple[float, float]) -> tuple[int, int]:
        """Return (dx, dy) in pixels, whole units by which the centre has moved; (0, 0) where it has not moved far."""
        if self._unit is None:
            return NO_SHIFT
        steps = [
            round(moved / unit) * unit if abs(moved) > max(_FAR * unit, _FAR_SHARE * side) else 0
            for moved, unit, side in zip(centre, self._unit[::-1], self.size[::-1], strict=True)
        ]
        return steps[0], steps[1]

    def _expose(self, dx: int, dy: int) -> None:
        """Mark what moves into the window as never seen."""
        unseen = np.ones_like(self._unseen)
        before, after = overlap(self.size, dx, dy)
        unseen[after] = self._unseen[before]
        self._unseen, self._has_unseen = unseen, True


def overlap(size: Size, dx: int, dy: int) -> tuple[Area, Area]:
    """Find the part of an image of (height, width) that stays in it when it moves right by dx and down by dy.

    Returns:
        Where that part was before, and where it is afterwards.
    """
    height, width = size
    before = np.s_[max(0, -dy) : height - max(0, dy), max(0, -dx) : width - max(0, dx)]
    after = np.s_[max(0, dy) : height - max(0, -dy), max(0, dx) : width - max(0, -dx)]
    return before, after
