# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Bounded mode of an engine: what is held back within the promise, and the audit of it."""

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
_PATIENCE = 3.0  # times the frames between audits


class Compute(Protocol):
    """Runs a program, alone or with a server."""

    def __call__(
        self, *, outside: Border = Border.NONE, refresh: bool, division: Division | None = None
    ) -> dict[str, torch.Tensor]:
        """The outputs, by name; valid until the next run. See :meth:`Program.execute`."""


@dataclass(slots=True, kw_only=True)
class CachedFrame:
    """What the cache holds: the engine writes it, bounded mode checks it.

    Attributes:
        program: has the feature maps.
        compute: runs it, see :class:`Compute`.
        input: has the composed image that they were computed from.
        keyframe: how the last frame lies on that image.
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
        """Have everything that an image leads to computed next: see :meth:`InputWriter.write`."""
        self.input.write_all(image, self.program.changed_input)

    def dense(self, image: Image) -> list[torch.Tensor]:
        """The exact outputs for an image at the model's size, which the cache then holds; valid until the next run."""
        self.write_all(image)
        return list(self.compute(refresh=True).values())

    def recomputed(self) -> list[torch.Tensor]:
        """The exact outputs for what the cache stands for; valid until the next run."""
        self.input.write_composed(self.program.changed_input)
        return list(self.compute(refresh=True).values())


class BoundedMode:
    """Sets an engine's thresholds, and compares its outputs with exact ones now and then.

    In other modes it holds nothing back, and there is nothing to audit.
    """

    def __init__(self, cached: CachedFrame, input_name: str, config: EngineConfig) -> None:
        """Hold nothing back until there is a calibration.

        Args:
            cached: what the engine holds. The engine itself is not known here: it is to go with who had it made.
            input_name: of the graph's input, whose pixels may be held back too.
            config: the promise.
        """
        self._cached = cached
        self._input_name = input_name
        self._config = config
        self._auditor = Auditor()
        self._size = (cached.frame.shape[0], cached.frame.shape[1])

    @property
    def calibration(self) -> Calibration | None:
        """What it goes by; None: it was not calibrated, and is exact."""
        return self._auditor.calibration

    @property
    def audit_due(self) -> bool:
        """Whether it should check its error with a dense frame, when there is time."""
        return self._can_audit and self._auditor.is_due(self._config)

    @property
    def audit_overdue(self) -> bool:
        """Whether that must not wait any longer."""
        return self._can_audit and self._auditor.is_due(self._config, patience=_PATIENCE)

    @property
    def _can_audit(self) -> bool:
        """Whether there is a promise, and what is to be checked."""
        return self._config.mode is Mode.BOUNDED and self._cached.is_whole

    def configure(self, config: EngineConfig) -> None:
        """Take over another promise, or mode."""
        self._config = config
        self._apply_thresholds()

    def use(self, calibration: Calibration) -> None:
        """Go by a calibration from now on."""
        self._auditor.calibration = calibration
        self._apply_thresholds()

    def count(self, outputs: Sequence[torch.Tensor], *, refreshed: bool) -> None:
        """Take note of a frame in this mode; ``refreshed``: it was computed densely."""
        self._auditor.count(outputs, refreshed=refreshed)

    def moved(self, shift: tuple[int, int]) -> None:
        """Take note that the cache was moved by (dx, dy) whole pixels of the input."""
        self._auditor.moved(shift, self._size)

    @torch.inference_mode()
    def audit(self) -> Audit | None:
        """Compute what the cache stands for densely and compare: the check on the promise.

        The cache is refreshed; where the promise was broken, thresholds are tightened. None: there is nothing to audit.
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
        """What it costs to see the last frame from the keyframe; the cache then holds that frame."""
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
