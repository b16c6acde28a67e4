# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The parameters of matching."""

from __future__ import annotations

import math
from enum import Enum
from typing import Any

from pydantic import ValidatorFunctionWrapHandler, field_validator

from cacheinf_ros.config import Config, parameter, setting, unlisted

IDENTICAL = 100.0
"""From this threshold on, in dB, only blocks that are equal in every byte are reusable."""


class MatcherName(Enum):
    """The matching algorithms, one per file."""

    DIAMOND_OPTIMISED = "diamond_optimised"
    DIAMOND = "diamond"
    EXHAUSTIVE = "exhaustive"
    THREE_STEP = "three_step"
    DEEPMON = "deepmon"
    IDENTITY = "identity"
    HOMOGRAPHY = "homography"
    FIELD = "field"
    AUTO = "auto"


class MatchingConfig(Config):
    """How a frame is compared with the reference (DeepCache section 4). All parameters may change while a node runs."""

    matcher: MatcherName = parameter(
        MatcherName.AUTO,
        "matching algorithm: auto (the one that pays), identity (same position only), diamond_optimised, diamond, "
        "exhaustive, three_step (one shift), field (a shift per block), homography, or deepmon (histograms)",
        live=True,
    )
    threshold: float = parameter(
        20.0,
        "least PSNR of a reusable block, in dB; 100: only blocks that are equal in every byte are reusable",
        low=0.0,
        high=100.0,
        live=True,
    )
    warp_threshold: float = setting(
        3.0,
        "homography: largest mean difference of a reusable quarter block, in grey levels beyond resampling",
        low=0.0,
        high=60.0,
    )
    adapt_to_noise: bool = setting(
        True,
        "a block whose difference the camera's noise explains is reusable below the threshold too, unless that is 100",
    )
    dense_ms: float = setting(
        0.0,
        "auto: what a frame takes without a cache, ms; 0: as measured by a model in the same process, else 100",
        low=0.0,
        high=2000.0,
    )
    block_size: int = parameter(10, "side of a block, in pixels", low=2, high=128, live=True)
    k_skip: int = setting(2, "diamond_optimised searches only every k-th block in each direction", low=1, high=16)
    search_range: int = unlisted(
        16, "largest movement that is searched for in each direction, in pixels", low=0, high=64, live=True
    )
    expiry: int = parameter(
        1000,
        "the reference is dropped after this many frames were matched with it; engine mode deepcache needs about 10",
        low=1,
        high=10_000,
        live=True,
    )

    @field_validator("threshold", mode="wrap")
    @classmethod
    def _allow_infinity(cls, value: Any, check: ValidatorFunctionWrapHandler) -> float:
        if str(value).strip().lower() in ("inf", "+inf", ".inf"):
            return math.inf
        checked: float = check(value)
        return checked
