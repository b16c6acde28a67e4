# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The result of one frame: what the model says about it, and how the answer was found."""

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
    """The engine's outputs for one frame and what is decoded from them; see also msg/InferenceResult.msg.

    Attributes:
        model: the model's name.
        mode: how the frame was answered: the engine's mode, or "held".
        outcome: what the frame did to the local cache.
        engine: outputs and what they cost; the stages are those of the whole frame.
        input_size: (height, width) of the model's input; the engine's motion is in its pixels.
        decoded: classes, boxes or a class map; None where the outputs have no decoder.
        error: why there is no answer; empty where there is one.
        variant, why: the variant that a catalog chose, and the reason.
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
        """Prepend stages that came before the model, in milliseconds."""
        return replace(self, engine=replace(self.engine, stage_ms={**stage_ms, **self.engine.stage_ms}))
