# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Matchers that the package's own matcher is compared with (DeepCache's Table 4)."""

from collections.abc import Callable, Mapping
from functools import partial

from benchmarks.matchers.comparator import Comparator
from benchmarks.matchers.deepmon import deepmon
from benchmarks.matchers.searches import diamond, exhaustive, three_step
from cacheinf_ros.matching import Matcher, MatchingConfig

COMPARATORS: Mapping[str, Callable[[MatchingConfig], Matcher]] = {
    compare.__name__: partial(Comparator, compare.__name__, compare)
    for compare in (diamond, exhaustive, three_step, deepmon)
}
"""The comparators by their names in reports; the ``matcher`` of the configuration that they get is ignored."""

__all__ = ["COMPARATORS"]
