# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""What the model says about one frame."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from numpy.typing import NDArray

from cacheinf_ros.cache_map import Motion
from cacheinf_ros.engine import Decoded


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameResult:
    """What the model says about one frame; see msg/InferenceResult.msg for the meaning of each field."""

    model: str
    mode: str
    where: str = "local"
    cached: bool = True  # whether the local cache holds this frame now; else it holds what it held before
    error: str = ""
    reuse_ratio: float = 0.0
    active_share: float = 0.0
    stage_ms: dict[str, float] = field(default_factory=dict)
    outputs: dict[str, NDArray[Any]] = field(default_factory=dict)
    motion: Motion = field(default_factory=Motion.none)  # outputs -> frame, in pixels of the model's input
    input_size: tuple[int, int] = (1, 1)
    decoded: Decoded | None = None
    variant: str = ""
    why: str = ""
