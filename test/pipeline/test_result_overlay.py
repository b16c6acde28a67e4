# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The overlay of results draws what the model found."""

from __future__ import annotations

import numpy as np

from cacheinf_ros.engine import Box, Decoded, KeyPoint
from cacheinf_ros.pipeline.result_overlay import draw_result

IMAGE = np.full((100, 120, 3), 128, np.uint8)


def drawn(**shape: object) -> np.ndarray:
    """Which pixels a box with a shape has drawn more than the box alone."""
    box = {"x": 10.0, "y": 20.0, "width": 80.0, "height": 60.0, "class_id": 0, "name": "", "score": 0.5}
    pictures = [draw_result(IMAGE, None, [], Decoded(boxes=(Box(**{**box, **more}),))) for more in ({}, shape)]
    return (pictures[0] != pictures[1]).any(axis=2)


def test_outlines_are_drawn_closed() -> None:
    changed = drawn(outlines=(((30.0, 40.0), (60.0, 40.0), (60.0, 70.0), (30.0, 70.0)),))
    assert changed[40, 45] and changed[70, 45] and changed[55, 30] and changed[55, 60] and not changed[55, 45]


def test_only_key_points_that_were_seen_are_drawn() -> None:
    changed = drawn(key_points=(KeyPoint(40, 50, 0.9), KeyPoint(60, 50, 0.2)))
    assert changed[50, 40] and not changed[50, 60]
