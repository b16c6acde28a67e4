# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The check at run time that bounded mode keeps its promise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from cacheinf_ros.engine.bounded.calibration import Calibration
from cacheinf_ros.engine.bounded.error_sum import ErrorSum, mean_squares
from cacheinf_ros.engine.delta_threshold import DeltaThreshold
from cacheinf_ros.engine.engine_config import EngineConfig
from cacheinf_ros.engine.following import Size, shift_output

_GOAL = 0.75  # share of the promise: errors above it are on their way to breaking it
_MEMORY = 0.8  # weight of the audits before in the missed share of change
_LONG = 0.5  # share of ``audit_every``, in frames since the last audit: what changes in fewer says little
_STEEPEST = 0.5  # least factor by which one step lowers all thresholds
_RELAX = 1.2  # factor when much room is left, never beyond what calibration found
_ROOM = 0.5  # share of the promise below which much room is left
_ROUNDING = 1e-5  # a promise below it cannot be kept in float32
_MOTION_EVERY = 4  # long audits: what following the camera costs is expensive to find out, and changes little
_FIRST = 8  # frames until the first audit; a calibration saw few frames, or another stream


@dataclass(frozen=True, slots=True, kw_only=True)
class Audit:
    """What the comparison with a dense frame showed.

    Attributes:
        engine_error: RMS of cached against dense output on the composed input, over the outputs' deviation.
        missed_change: RMS(cached - exact) / RMS(stale - exact), stale being the outputs of the last dense frame; over
            the last few audits, as little may have changed since one dense frame.
        kept: whether all errors were below what was promised. The missed change does not count soon after an audit, nor
            as long as the outputs changed less than ``max_error``.
        asks_for_motion: whether it is time to measure the ``motion_error``: not soon after an audit, nor every time.
        motion_error: what following the camera costs: RMS of dense outputs for the frame as seen from the keyframe,
            mapped back to the frame, against those for the frame, over the outputs' deviation; None: not measured.
        room_for_motion: factor of the distortion allowed from now on, at most 1.
        tightness: factor of the calibrated thresholds from now on, at most 1.
    """

    engine_error: float
    missed_change: float
    kept: bool
    tightness: float
    asks_for_motion: bool
    motion_error: float | None = None
    room_for_motion: float = 1.0


class Auditor:
    """Counts frames, compares outputs, and scales the thresholds by what it finds.

    Attributes:
        calibration: where the thresholds come from; None: not calibrated.
    """

    def __init__(self) -> None:
        self.calibration: Calibration | None = None
        self._tightness = 1.0
        self._frames = 0  # since the last audit
        self._wait = _FIRST  # until the next one
        self._stale: list[NDArray[Any]] = []
        self._recent: ErrorSum | None = None
        self._room_for_motion = 1.0
        self._until_motion = 0  # long audits until motion is judged again

    def is_due(self, config: EngineConfig, patience: float = 1.0) -> bool:
        """Tell whether it is time for an audit.

        The first audits come early and, as long as the promise is kept, later and later, up to every ``audit_every``
        frames: errors may grow with the frames since the last dense one. ``patience``: factor of the frames to wait.
        """
        if self.calibration is None or not config.audit_every:
            return False
        return self._frames >= patience * min(config.audit_every, self._wait)

    def count(self, outputs: Sequence[torch.Tensor], *, refreshed: bool) -> None:
        """Count a frame; ``refreshed`` says whether it was computed densely."""
        self._frames += 1
        if refreshed and self.calibration is not None:
            self.refreshed(outputs)

    def refreshed(self, outputs: Sequence[torch.Tensor]) -> None:
        """Keep the outputs of a dense frame, to compare later outputs with."""
        if len(self._stale) != len(outputs):
            self._stale = [np.empty_like(value.cpu().numpy()) for value in outputs]  # also laid out alike
        for kept, value in zip(self._stale, outputs, strict=True):
            np.copyto(kept, value.cpu().numpy())

    def moved(self, shift: tuple[int, int], input_size: Size) -> None:
        """Take note that the cache was moved by (dx, dy) whole pixels of the input."""
        self._stale = [shift_output(value, shift, input_size) for value in self._stale]

    def thresholds(self, config: EngineConfig) -> dict[str, DeltaThreshold]:
        """Return the thresholds of what may be held back, by tensor; none where there is no calibration."""
        if self.calibration is None:
            return {}
        scale = self.calibration.scale_for(config.max_error, config.max_missed)
        return self.calibration.thresholds(self._tightness * scale)

    def compare(self, ours: Sequence[torch.Tensor], exact: Sequence[torch.Tensor], config: EngineConfig) -> Audit:
        """Judge the outputs of a frame by the exact ones, and adjust the thresholds."""
        assert self.calibration is not None
        cached, dense = ([value.cpu().numpy() for value in values] for values in (ours, exact))
        stale, scale = self._stale or dense, self.calibration.output_scale
        squares = mean_squares(cached, dense), mean_squares(stale, dense)
        now = ErrorSum(scale)
        now.add_squares(*squares)
        used = _share(now.engine_error, config.max_error)
        is_long = self._frames >= _LONG * config.audit_every
        if is_long:
            self._until_motion = max(0, self._until_motion - 1)
            self._recent = self._recent or ErrorSum(scale)
            self._recent.fade(_MEMORY)
            self._recent.add_squares(*squares)
            if self._recent.change > config.max_error:
                used = max(used, _share(self._recent.missed_change, config.max_missed))
        self._frames = 0
        self.refreshed(exact)
        self._tightness = _adjusted(self._tightness, used)
        kept = used <= 1.0
        self._wait = min(2 * self._wait, config.audit_every) if kept else max(_FIRST, self._wait // 2)
        missed = (self._recent or now).missed_change
        return Audit(
            engine_error=now.engine_error,
            missed_change=missed,
            kept=kept,
            tightness=self._tightness,
            asks_for_motion=is_long and self._until_motion == 0,
        )

    def add_motion(self, audit: Audit, motion_error: float, config: EngineConfig) -> Audit:
        """Judge what following the camera costs, and adjust how far the keyframe may get away from the frame."""
        used = _share(motion_error, config.max_motion_error)
        self._until_motion = _MOTION_EVERY if used <= 1.0 else 1
        self._room_for_motion = _adjusted(self._room_for_motion, used)
        kept = audit.kept and used <= 1.0
        return replace(audit, kept=kept, motion_error=motion_error, room_for_motion=self._room_for_motion)


def _adjusted(factor: float, used: float) -> float:
    """Adjust a factor of what is allowed, at most 1, after the share ``used`` of a promise was used up."""
    if used > _GOAL:
        return factor * max(_STEEPEST, _GOAL / used)
    return min(1.0, factor * _RELAX) if used < _ROOM else factor


def _share(error: float, promised: float) -> float:
    """Return an error as a share of what was promised."""
    return error / max(promised, _ROUNDING)
