# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Match a frame with a reference: which blocks of the frame are reusable, under which motion."""

from cacheinf_ros.matching.keyframe import Keyframe
from cacheinf_ros.matching.matchers import Matcher, make_matcher
from cacheinf_ros.matching.matching_config import (
    IDENTICAL,
    MatcherName,
    MatchingConfig,
    matching_for,
    tolerates_less,
    usable,
)
from cacheinf_ros.matching.matching_stream import MatchingStream
from cacheinf_ros.matching.overlay import draw_overlay
from cacheinf_ros.matching.savings import Choice

__all__ = [
    "IDENTICAL", "Choice", "Keyframe", "Matcher", "MatcherName", "MatchingConfig", "MatchingStream", "draw_overlay",
    "make_matcher", "matching_for", "tolerates_less", "usable",
]  # fmt: skip
