# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Tests of which configuration gives which matcher."""

from __future__ import annotations

import math
from typing import Any

import pytest

from cacheinf_ros.errors import ConfigError
from cacheinf_ros.matching import MatcherName, MatchingConfig, make_matcher


@pytest.mark.parametrize("name", MatcherName)
def test_every_name_has_its_matcher(name: MatcherName) -> None:
    assert make_matcher(MatchingConfig.checked(matcher=name.value)).name == name.value


@pytest.mark.parametrize(
    ("name", "instead"),
    [
        ("diamond", "use diamond_optimised"),
        ("exhaustive", "use diamond_optimised"),
        ("three_step", "benchmarks/matchers"),
        ("deepmon", "use identity"),
        ("field", "use auto or homography"),
    ],
)
def test_a_name_that_is_gone_says_what_it_has_become(name: str, instead: str) -> None:
    with pytest.raises(ConfigError, match=f"matcher = '{name}'.*{instead}"):
        MatchingConfig.checked(matcher=name)


def test_the_defaults_are_the_papers_but_for_what_looks_for_motion() -> None:
    config = MatchingConfig()
    assert (config.threshold, config.block_size, config.k_skip) == (20.0, 10, 2)
    assert config.matcher is MatcherName.AUTO


@pytest.mark.parametrize("value", [math.inf, "inf", ".inf"])
def test_the_threshold_may_be_infinite(value: Any) -> None:
    assert MatchingConfig.checked(threshold=value).changed(block_size=8).threshold == math.inf


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("threshold", -1.0),
        ("threshold", 100.5),
        ("threshold", math.nan),
        ("threshold", -math.inf),
        ("block_size", 1),
        ("block_size", 129),
        ("k_skip", 0),
        ("search_range", -1),
        ("expiry", -1),
        ("expiry", 10_001),
        ("matcher", "telepathy"),
        ("thresold", 20.0),
    ],
)
def test_a_bad_value_is_refused_by_name(field: str, value: Any) -> None:
    with pytest.raises(ConfigError, match=field):
        MatchingConfig.checked(**{field: value})
