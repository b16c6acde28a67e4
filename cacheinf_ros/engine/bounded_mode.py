# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Bounded mode of an engine: holds small changes back within the promise, and audits the error."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from cacheinf_ros.engine.bounded import Audit, Auditor, Calibration
from cacheinf_ros.engine.engine_config import EngineConfig
from cacheinf_ros.engine.execution.border import Border
from cacheinf_ros.engine.following import move_output
from cacheinf_ros.engine.input import InputWriter
from cacheinf_ros.engine.partition.sharing import Division
from cacheinf_ros.engine.program import Program
from cacheinf_ros.geometry import KeyframeWindow, look_through
from cacheinf_ros.mode import Mode

Image = NDArray[np.uint8]
_PATIENCE = 3.0  # an audit is overdue after this many times the interval between audits


class Compute(Protocol):
    """Runs a program, alone or with a server."""

    def __call__(
        self, *, outside: Border = Border.NONE, refresh: bool, division: Division | None = None
    ) -> dict[str, torch.Tensor]:
        """Return the outputs by name, valid until the next run; see :meth:`Program.execute`."""


@dataclass(slots=True, kw_only=True)
class CachedFrame:
    """The state of an engine's cache: the engine writes it, bounded mode checks it.

    Attributes:
        program: holds the feature maps.
        compute: runs the program, see :class:`Compute`.
        input: holds the composed image that the feature maps were computed from.
        keyframe: how the last frame lies on the composed image.
        frame: uint8 [height, width, 3] at the model's size: the last frame, while the camera moves.
        is_whole: whether the last frame was computed to its end; else nothing can be reused.
    """

    program: Program
    compute: Compute
    input: InputWriter
    keyframe: KeyframeWindow
    frame: Image
    is_whole: bool = False

    def write_all(self, image: Image) -> None:
        """Write an image whose pixels all count as changed in the next run; see :meth:`InputWriter.write_all`."""
        self.input.write_all(image, self.program.changed_input)

    def dense(self, image: Image) -> list[torch.Tensor]:
        """Compute the exact outputs for an image at the model's size, which the cache then holds.

        The outputs are valid until the next run.
        """
        self.write_all(image)
        return list(self.compute(refresh=True).values())

    def recomputed(self) -> list[torch.Tensor]:
        """Compute the exact outputs for the image that the cache stands for; they are valid until the next run."""
        self.input.write_composed(self.program.changed_input)
        return list(self.compute(refresh=True).values())


class BoundedMode:
    """Sets an engine's delta thresholds, and from time to time compares its outputs with exact ones.

    In other modes nothing is held back, and there is nothing to audit.
    """

    def __init__(self, cached: CachedFrame, input_name: str, config: EngineConfig) -> None:
        """Start without a calibration: until there is one, nothing is held back.

        Args:
            cached: the state of the engine's cache. There is no reference to the engine, so that it is freed with its
                owner.
            input_name: name of the graph's input, whose pixels may be held back too.
            config: states the promise.
        """
        self._cached = cached
        self._input_name = input_name
        self._config = config
        self._auditor = Auditor()
        self._size = (cached.frame.shape[0], cached.frame.shape[1])

    @property
    def calibration(self) -> Calibration | None:
        """The calibration in use; None: there is none yet, and results are exact."""
        return self._auditor.calibration

    @property
    def audit_due(self) -> bool:
        """Whether the error should be checked with a dense frame as soon as there is time."""
        return self._can_audit and self._auditor.is_due(self._config)

    @property
    def audit_overdue(self) -> bool:
        """Whether an audit must not be put off any longer."""
        return self._can_audit and self._auditor.is_due(self._config, patience=_PATIENCE)

    @property
    def _can_audit(self) -> bool:
        """Whether there is a promise, and a complete frame in the cache to check it on."""
        return self._config.mode is Mode.BOUNDED and self._cached.is_whole

    def configure(self, config: EngineConfig) -> None:
        """Apply a configuration, which may change the promise or the mode.

        Where less error is allowed from now on, one frame is computed completely: changes that were held back before
        would stay in the cache.
        """
        before, self._config = self._config, config
        holds_back = before.mode is Mode.BOUNDED and self.calibration is not None
        if holds_back and (config.max_error < before.max_error or config.max_missed < before.max_missed):
            self._cached.is_whole = False
        self._apply_thresholds()

    def use(self, calibration: Calibration) -> None:
        """Use a calibration from now on."""
        self._auditor.calibration = calibration
        self._apply_thresholds()

    def count(self, outputs: Sequence[torch.Tensor], *, refreshed: bool) -> None:
        """Count a frame in this mode; ``refreshed`` says whether it was computed densely."""
        self._auditor.count(outputs, refreshed=refreshed)

    def moved(self, shift: tuple[int, int]) -> None:
        """Take note that the cache was moved by (dx, dy) whole pixels of the input."""
        self._auditor.moved(shift, self._size)

    @torch.inference_mode()
    def audit(self) -> Audit | None:
        """Check the promise: compute the image that the cache stands for densely, and compare the outputs.

        The cache is refreshed by this; where the promise was broken, thresholds are tightened. Returns None where there
        is nothing to audit.
        """
        cached = self._cached
        if not cached.is_whole or self._auditor.calibration is None:
            return None
        ours = [value.clone() for value in cached.program.outputs.values()]
        audit = self._auditor.compare(ours, cached.recomputed(), self._config)
        if audit.asks_for_motion and not cached.keyframe.motion.is_none:
            audit = self._auditor.add_motion(audit, self._motion_error(self._auditor.calibration), self._config)
            cached.keyframe.allow(audit.room_for_motion)
        self._apply_thresholds()
        return audit

    def _motion_error(self, calibration: Calibration) -> float:
        """Measure the error of seeing the last frame from the keyframe; the cache then holds that frame."""
        motion, frame = self._cached.keyframe.motion, self._cached.frame
        outputs = self._cached.dense(look_through(frame, motion))
        seen = [move_output(value.cpu().numpy().copy(), motion, self._size) for value in outputs]
        self._cached.keyframe.restart()
        exact = self._cached.dense(frame)
        self._auditor.refreshed(exact)
        return calibration.output_scale.error(seen, [value.cpu().numpy() for value in exact])

    def _apply_thresholds(self) -> None:
        thresholds = self._auditor.thresholds(self._config) if self._config.mode is Mode.BOUNDED else {}
        self._cached.input.set_threshold(thresholds.pop(self._input_name, None))
        self._cached.program.set_thresholds(thresholds)
