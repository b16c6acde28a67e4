# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Matchers that are there to be compared with."""

from collections.abc import Callable, Mapping

from cacheinf_ros.matching import Matcher, MatchingConfig

COMPARATORS: Mapping[str, Callable[[MatchingConfig], Matcher]] = {}
"""By name, as ``cacheinf bench matcher`` reports them."""
