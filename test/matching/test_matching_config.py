# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Tests of which matching suits which mode."""

from __future__ import annotations

import math

import pytest

from cacheinf_ros.matching import MatcherName, MatchingConfig, matching_for, usable
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
