"""The parameters of matching."""

from __future__ import annotations

import math
from enum import Enum
from typing import Any

from pydantic import ValidatorFunctionWrapHandler, field_validator

from cacheinf_ros.config import Config, parameter


class MatcherName(Enum):
    """The matching algorithms, one per file."""

    DIAMOND_OPTIMISED = "diamond_optimised"
    DIAMOND = "diamond"
    EXHAUSTIVE = "exhaustive"
    IDENTITY = "identity"


class MatchingConfig(Config):
    """How a frame is compared with the reference (DeepCache section 4). All of it may change while a node runs."""

    matcher: MatcherName = parameter(
        MatcherName.DIAMOND_OPTIMISED,
        "matching algorithm: diamond_optimised, diamond, exhaustive, or identity (same position only)",
        live=True,
    )
    threshold: float = parameter(
        20.0,
        "least PSNR of a reusable block, in dB; 100 or inf: only blocks that are equal in every byte",
        low=0.0,
        high=100.0,
        live=True,
    )
    block_size: int = parameter(10, "side of a block, in pixels", low=2, high=128, live=True)
    k_skip: int = parameter(
        2, "diamond_optimised searches only every k-th block in each direction", low=1, high=16, live=True
    )
    search_range: int = parameter(
        16, "largest movement that is searched for in each direction, in pixels", low=0, high=64, live=True
    )
    expiry: int = parameter(
        10, "the reference is dropped after this many frames were matched with it", low=1, high=10_000, live=True
    )

    @field_validator("threshold", mode="wrap")
    @classmethod
    def _allow_infinity(cls, value: Any, check: ValidatorFunctionWrapHandler) -> float:
        if str(value).strip().lower() in ("inf", "+inf", ".inf"):
            return math.inf
        checked: float = check(value)
        return checked
