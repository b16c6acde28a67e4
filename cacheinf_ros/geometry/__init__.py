# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Images under a motion: warping, comparing, painting and composing them, and when a keyframe is left behind."""

from cacheinf_ros.geometry.composing import ImagePair, check_image, compose_image
from cacheinf_ros.geometry.keyframe_policy import COMPARED, NO_SHIFT, Drift, KeyframePolicy, KeyframeWindow, overlap
from cacheinf_ros.geometry.painting import TILE, Brush
from cacheinf_ros.geometry.warping import WarpComparison, look_through, visible_blocks, warp, without_islands

__all__ = [
    "COMPARED", "NO_SHIFT", "TILE", "Brush", "Drift", "ImagePair", "KeyframePolicy", "KeyframeWindow", "WarpComparison",
    "check_image", "compose_image", "look_through", "overlap", "visible_blocks", "warp", "without_islands",
]  # fmt: skip
