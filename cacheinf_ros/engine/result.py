# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""What the engine returns for a frame."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from numpy.typing import NDArray

from cacheinf_ros.cache_map import Motion
from cacheinf_ros.mode import Mode


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineResult:
    """Outputs of the model for one frame, and what they cost.

    Attributes:
        outputs: by name, in the model's order, for the keyframe, and not yet moved to the frame by ``motion``.
            Feature maps are views into the cache: valid until the next run.
        motion: keyframe -> frame, in pixels of the model's input.
        shift: (dx, dy), by how many pixels of the model's input all that is cached was moved for this frame.
        mode: the mode that was used.
        reuse_ratio: the share of the frame that was reused, 0 to 1.
        active_share: FLOPs of the convolutions that were computed / those of a dense frame.
        stage_ms: milliseconds by stage, in order.
        cached: whether the cache holds this frame now; else it holds what it held before.
        where: where the frame was computed: local, or shared with a server.
        by_engine: whether the engine computed it, and not a dense backend beside it.
        refreshed: whether everything was computed, so that nothing in the cache is older than this frame.
    """

    outputs: dict[str, NDArray[Any]]
    mode: Mode
    reuse_ratio: float
    active_share: float
    stage_ms: dict[str, float]
    refreshed: bool
    cached: bool = True
    by_engine: bool = True
    where: str = "local"
    motion: Motion = field(default_factory=Motion.none)
    shift: tuple[int, int] = (0, 0)

    @property
    def tells_savings(self) -> bool:
        """Whether the time is what the engine takes for all that was not reusable: it computed that, alone."""
        return self.by_engine and self.where == "local" and self.mode is not Mode.DENSE and not self.refreshed

    @property
    def total_ms(self) -> float:
        """The milliseconds of all stages together."""
        return sum(self.stage_ms.values())
