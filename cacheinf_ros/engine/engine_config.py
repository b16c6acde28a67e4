# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The parameters that say how the engine runs."""

from __future__ import annotations

from enum import Enum

from cacheinf_ros.config import Config, parameter, setting, unlisted
from cacheinf_ros.mode import Mode


class Precision(Enum):
    """The type of numbers that convolutions multiply."""

    FLOAT32 = "float32"
    BFLOAT16 = "bfloat16"
    """Feature maps and weights are rounded to 8 bits of mantissa, on a CPU except for those of the first layers. This
    takes less memory, and is faster where the processor multiplies bfloat16, with an additional error; sums and outputs
    stay float32."""
    FLOAT16 = "float16"
    """Like BFLOAT16 on a GPU, with 11 bits of mantissa and no value above 65504; not available on a CPU."""
    INT8 = "int8"
    """Feature maps are levels of 8 bits, with scales from the user's frames (``cacheinf quantise``)."""


class DensePrecision(Enum):
    """The lowest precision that dense engines may use, the most precise first; each allows those before it as well."""

    FLOAT32 = "float32"
    FLOAT16 = "float16"
    BFLOAT16 = "bfloat16"
    INT8 = "int8"
    """Post-training quantisation: once per model it takes minutes, during which frames go on, and some memory."""

    def allows(self, other: DensePrecision) -> bool:
        """Tell whether the other precision is at least as precise as this one."""
        order = list(DensePrecision)
        return order.index(other) <= order.index(self)

    @property
    def loses(self) -> bool:
        """Whether answers in this precision differ from those of the network."""
        return self is not DensePrecision.FLOAT32


class Cache(Enum):
    """Which feature maps are kept between frames."""

    ALL = "all"
    """All of them: the fastest choice, where memory is no concern."""
    MERGED = "merged"
    """As few as cost at most 10 % more time; the others are computed anew where they are needed."""


class EngineConfig(Config):
    """Parameters of the engine."""

    mode: Mode = parameter(Mode.EXACT, "what is taken from the cache: dense, exact, deepcache or bounded", live=True)
    device: str = parameter("cpu", "torch device that holds the model: cpu or cuda")
    threads: int = parameter(2, "threads in which frames are computed, by any backend", low=1, high=256)
    precision: Precision = parameter(
        Precision.FLOAT32,
        "what convolutions multiply: float32; bfloat16: less precise, feature maps take half of the memory to three "
        "quarters, faster with AVX512_BF16, on ARM BF16, or a GPU; float16: the same, more precise, with device cuda "
        "only; int8: the fastest, a quarter of the memory, needs device cpu and scales from `cacheinf quantise`",
    )
    cache: Cache = parameter(
        Cache.ALL,
        "which feature maps are kept between frames without a budget: all, or merged: as few as cost 10 % more time",
        name="cache.keep",
    )
    cache_budget_mb: float = parameter(
        -1.0,
        "most memory for maps kept between frames beside inputs and outputs, 10**6 bytes; 0: none, dense; -1: any",
        low=-1.0,
        high=1e6,
        name="cache.budget_mb",
    )
    debug_memory: bool = setting(
        False, "overwrite memory of feature maps with NaN where nothing may read it: slow, to find errors"
    )
    dense_fallback: bool = setting(
        True, "compute everything where frames with as much change have been slower with the cache"
    )
    max_loss: float = parameter(
        0.02,
        "bounded mode: how much less often than dense execution the answer may be right, and 2.5 times as much where "
        "things move; right is what dense results of neighbouring frames agree on; 0: every frame is computed densely",
        low=0.0,
        high=0.4,
        live=True,
    )
    dense_precision: DensePrecision = unlisted(
        DensePrecision.BFLOAT16,
        "bounded mode: how far down frames between bursts may go in dense engines, ours or others, where that is "
        "faster and keeps the promise: float32, float16, bfloat16 or int8",
    )
    same_bits: bool = unlisted(
        False,
        "one kernel for each operator, whatever share of it changed: exact results equal dense ones in every bit",
    )
    max_error: float = parameter(
        0.02,
        "bounded mode: engine_error to stay below, RMS over the outputs' standard deviation",
        low=0.0,
        high=0.4,
        live=True,
    )
    max_missed: float = unlisted(
        0.2, "bounded mode: share of the outputs' change that may be missed, RMS", low=0.0, high=1.0, live=True
    )
    max_motion_error: float = setting(
        0.8,
        "bounded mode: error that following a moving camera may cost, RMS over the outputs' standard deviation",
        low=0.0,
        high=10.0,
    )
    audit_every: int = unlisted(
        100,
        "bounded mode: frames between two audits by a dense frame; 0: none",
        low=0,
        high=2000,
        live=True,
        name="cache.audit_every",
    )
