# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Matchers by name: the package's own, and the comparators of the benchmarks."""

from __future__ import annotations

from cacheinf_ros.matching import Matcher, MatcherName, MatchingConfig, make_matcher

WITH_ONE_SHIFT = ("identity", "diamond_optimised", "diamond", "exhaustive", "three_step")
"""Matchers that search for one motion of whole pixels, at which all reusable blocks reach the PSNR threshold."""


def matcher_named(name: str, config: MatchingConfig) -> Matcher:
    """Return the matcher of this name with the given configuration."""
    from benchmarks.matchers import COMPARATORS  # here: numba compiles some, in each process that collects tests

    if name in COMPARATORS:
        return COMPARATORS[name](config)
    return make_matcher(config.changed(matcher=MatcherName(name)))
