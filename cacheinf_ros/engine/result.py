"""What the engine returns for a frame."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cacheinf_ros.engine.config import Mode


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineResult:
    """Outputs of the model for one frame, and what they cost.

    Attributes:
        outputs: by name, in the model's order. Feature maps are views into the cache: valid until the next run.
        mode: that was used.
        reuse_ratio: of the frame, 1 = all reused.
        active_share: FLOPs of the convolutions that were computed / those of a dense frame.
        stage_ms: milliseconds by stage, in order.
        refreshed: whether everything was computed, so that nothing in the cache is older than this frame.
        composed: uint8 [height, width, 3] at the model's size, a copy: what exact execution would have started from;
            only when the engine was told to keep it.
    """

    outputs: dict[str, NDArray[Any]]
    mode: Mode
    reuse_ratio: float
    active_share: float
    stage_ms: dict[str, float]
    refreshed: bool
    composed: NDArray[np.uint8] | None = None
