# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""(reference, frame) -> which blocks of the frame are reusable, under which motion."""

from cacheinf_ros.matching.anchor import Anchor
from cacheinf_ros.matching.config import MatcherName, MatchingConfig
from cacheinf_ros.matching.make import make_matcher
from cacheinf_ros.matching.matcher import Matcher
from cacheinf_ros.matching.overlay import draw_overlay
from cacheinf_ros.matching.stream import MatchingStream

__all__ = ["Anchor", "Matcher", "MatcherName", "MatchingConfig", "MatchingStream", "draw_overlay", "make_matcher"]
