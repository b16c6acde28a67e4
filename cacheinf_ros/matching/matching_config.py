# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The parameters of matching, and which of them suit which mode of the engine."""

from __future__ import annotations

import math
from collections.abc import Mapping
from enum import Enum
from functools import lru_cache
from typing import Any

from pydantic import ValidatorFunctionWrapHandler, field_validator

from cacheinf_ros.config import Config, parameter, setting, unlisted
from cacheinf_ros.mode import Mode

IDENTICAL = 100.0
"""The threshold, in dB, from which on only blocks that are equal in every byte are reusable."""


DEEPCACHE_EXPIRY = 10
"""The expiry in deepcache mode, in frames (DeepCache section 5): features that move lose some accuracy each time."""
LASTING_EXPIRY = 1000
"""The expiry in all other modes, in frames."""


class MatcherName(Enum):
    """The names of the matching algorithms."""

    AUTO = "auto"
    IDENTITY = "identity"
    DIAMOND_OPTIMISED = "diamond_optimised"
    HOMOGRAPHY = "homography"


_FOLLOWED: Mapping[Mode, MatcherName] = {  # what ``auto`` stands for in each mode: motion that the mode can make use of
    Mode.DENSE: MatcherName.IDENTITY,
    Mode.EXACT: MatcherName.IDENTITY,
    Mode.DEEPCACHE: MatcherName.DIAMOND_OPTIMISED,
    Mode.BOUNDED: MatcherName.AUTO,
}
_COMPARATOR = "is only there to be compared with, in benchmarks/matchers of the repository; use "
_GONE: Mapping[str, str] = {  # former matchers that users may still ask for, and what became of them
    "diamond": _COMPARATOR + "diamond_optimised, which finds as much in less time",
    "exhaustive": _COMPARATOR + "diamond_optimised",
    "three_step": _COMPARATOR + "diamond_optimised",
    "deepmon": _COMPARATOR + "identity",
    "field": "is gone, as it saved no more than one shift does; use auto or homography",
}


class MatchingConfig(Config):
    """How a frame is compared with the reference (DeepCache section 4). All parameters may change while a node runs."""

    matcher: MatcherName = parameter(
        MatcherName.AUTO,
        "matching algorithm: auto (the one that pays), identity (same position only), diamond_optimised (one shift, as "
        "DeepCache) or homography (any motion of the camera, as CacheInf)",
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
        0,
        "the reference is dropped after this many frames were matched with it; 0: what suits the engine's mode, 10 in "
        "deepcache and 1000 otherwise",
        low=0,
        high=10_000,
        live=True,
    )

    @field_validator("matcher", mode="before")
    @classmethod
    def _explain_what_is_gone(cls, value: Any) -> Any:
        if isinstance(value, str) and value in _GONE:
            raise ValueError(f"{value} {_GONE[value]}")
        return value

    @field_validator("threshold", mode="wrap")
    @classmethod
    def _allow_infinity(cls, value: Any, check: ValidatorFunctionWrapHandler) -> float:
        if str(value).strip().lower() in ("inf", "+inf", ".inf"):
            return math.inf
        checked: float = check(value)
        return checked


@lru_cache(maxsize=16)  # asked for every frame
def usable(config: MatchingConfig, mode: Mode, dense_ms: float = 0.0) -> MatchingConfig:
    """Fill in what the user leaves to the engine.

    ``auto`` becomes a matcher that looks only for motion that the mode can use, and an expiry of 0 becomes that of
    deepcache mode, where that is the mode.

    Args:
        mode: mode of the engine.
        dense_ms: what a frame takes without a cache, as measured on this machine, for a config without ``dense_ms``.
    """
    found: dict[str, Any] = {}
    if config.matcher is MatcherName.AUTO:
        found["matcher"] = _FOLLOWED[mode]
    if mode is Mode.DEEPCACHE and not config.expiry:
        found["expiry"] = DEEPCACHE_EXPIRY
    config = config.changed(**found) if found else config
    if dense_ms and not config.dense_ms:
        return config.model_copy(update={"dense_ms": dense_ms})  # not validated: it is measured, not set by a user
    return config


def tolerates_less(config: MatchingConfig, before: MatchingConfig) -> bool:
    """Tell whether a block may differ less from the reference than it might before, to be reusable.

    Another matcher counts where only identical blocks are reusable: it may have followed motions between pixels.
    """
    is_other = config.matcher is not before.matcher
    return (
        config.threshold > before.threshold
        or config.warp_threshold < before.warp_threshold
        or (before.adapt_to_noise and not config.adapt_to_noise)
        or (is_other and config.threshold >= IDENTICAL)
    )


def matching_for(
    mode: Mode, *, threshold_db: float | None = None, matcher: MatcherName | None = None, **asked: int | None
) -> MatchingConfig:
    """Return the matching with which each mode is measured where the user asks for nothing else.

    For deepcache that is the paper's; otherwise blocks at the same place are compared, which must be identical except
    in bounded mode.

    Args:
        asked: other values by field name; None: as the mode has them.
    """
    config = MatchingConfig(matcher=MatcherName.IDENTITY)
    if mode is Mode.DEEPCACHE:
        config = usable(MatchingConfig(), mode)
    elif mode is not Mode.BOUNDED:
        config = config.changed(threshold=math.inf)
    values = {"threshold": threshold_db, "matcher": matcher, **asked}
    return config.changed(**{name: value for name, value in values.items() if value is not None})
