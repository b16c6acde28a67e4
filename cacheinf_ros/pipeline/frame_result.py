# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""What the model says about one frame."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

from cacheinf_ros.engine import Decoded, EngineResult
from cacheinf_ros.mode import Mode
from cacheinf_ros.pipeline.pairing import Outcome

HELD = "held"
"""The mode of a frame for which the last answer stands."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameResult:
    """What the engine gave for one frame, and what is made of it; see also msg/InferenceResult.msg.

    Attributes:
        model: its name.
        mode: how the frame was answered: the engine's mode, or "held".
        outcome: what the frame did to the local cache.
        engine: outputs and what they cost; its stages are those of the whole frame.
        input_size: (height, width) of the model's input, in pixels of which the engine's motion is.
        decoded: classes, boxes or a class map; None where the outputs have no decoder.
        error: why there is nothing; empty where there is.
        variant, why: what a catalog chose, for which reason.
    """

    model: str
    mode: str
    outcome: Outcome
    engine: EngineResult
    input_size: tuple[int, int] = (1, 1)
    decoded: Decoded | None = None
    error: str = ""
    variant: str = ""
    why: str = ""

    @classmethod
    def failed(cls, model: str, mode: Mode, error: str, *, where: str = "local", why: str = "") -> Self:
        """Make the result of a frame for which nothing was computed."""
        nothing = EngineResult(
            outputs={}, mode=mode, reuse_ratio=0.0, active_share=0.0, stage_ms={}, refreshed=False, where=where
        )
        return cls(model=model, mode=mode.value, outcome=Outcome.LOST, engine=nothing, error=error, why=why)

    def after(self, stage_ms: dict[str, float]) -> Self:
        """Put what came before the model in front of the stages, in milliseconds."""
        return replace(self, engine=replace(self.engine, stage_ms={**stage_ms, **self.engine.stage_ms}))
