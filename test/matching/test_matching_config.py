# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Tests of which matching suits which mode."""

from __future__ import annotations

import math
from typing import Any

import pytest

from cacheinf_ros.matching import MatcherName, MatchingConfig, matching_for, tolerates_less, usable
from cacheinf_ros.mode import Mode


def test_every_mode_has_its_matching() -> None:
    exact = matching_for(Mode.EXACT)
    assert (exact.matcher, exact.threshold) == (MatcherName.IDENTITY, math.inf)
    deepcache = matching_for(Mode.DEEPCACHE, block_size=None)
    assert (deepcache.matcher, deepcache.threshold) == (MatcherName.DIAMOND_OPTIMISED, 20.0)
    assert (deepcache.block_size, deepcache.expiry) == (10, 10)
    asked = matching_for(Mode.BOUNDED, threshold_db=30.0, matcher=MatcherName.HOMOGRAPHY)
    assert (asked.matcher, asked.threshold) == (MatcherName.HOMOGRAPHY, 30.0)


@pytest.mark.parametrize(
    ("mode", "matcher"),
    [
        (Mode.DENSE, MatcherName.IDENTITY),
        (Mode.EXACT, MatcherName.IDENTITY),
        (Mode.DEEPCACHE, MatcherName.DIAMOND_OPTIMISED),
        (Mode.BOUNDED, MatcherName.AUTO),
    ],
)
def test_auto_looks_for_what_the_mode_can_follow(mode: Mode, matcher: MatcherName) -> None:
    config = MatchingConfig(threshold=31.0)
    assert usable(config, mode) == config.changed(matcher=matcher, expiry=10 if mode is Mode.DEEPCACHE else 0)


@pytest.mark.parametrize("mode", Mode)
def test_what_the_user_names_is_used(mode: Mode) -> None:
    config = MatchingConfig(matcher=MatcherName.HOMOGRAPHY, expiry=500)
    assert usable(config, mode) is config


def test_a_measured_time_may_be_longer_than_any_that_a_user_may_set() -> None:
    """A benchmark once ended where a dense frame takes more than two seconds."""
    assert usable(MatchingConfig(), Mode.EXACT, 2500.0).dense_ms == 2500.0
    assert usable(MatchingConfig(dense_ms=30.0), Mode.EXACT, 2500.0).dense_ms == 30.0


@pytest.mark.parametrize(
    ("now", "before", "is_less"),
    [
        ({}, {}, False), ({"threshold": 30.0}, {}, True), ({"threshold": 15.0}, {}, False),
        ({"warp_threshold": 2.0}, {}, True), ({"adapt_to_noise": False}, {}, True), ({"dense_ms": 50.0}, {}, False),
        ({"matcher": "identity"}, {"matcher": "homography"}, False), ({"block_size": 8, "expiry": 7}, {}, False),
        ({"matcher": "identity", "threshold": 100.0}, {"matcher": "homography", "threshold": 100.0}, True),
    ],
)  # fmt: skip
def test_less_is_tolerated(now: dict[str, Any], before: dict[str, Any], is_less: bool) -> None:
    """A change of the mode alone, which may bring another matcher, costs no complete frame more than it must."""
    assert tolerates_less(MatchingConfig(**now), MatchingConfig(**before)) is is_less
