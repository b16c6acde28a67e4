# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The overlay of results draws what the model found."""

from __future__ import annotations

import numpy as np

from cacheinf_ros.engine import Box, Decoded, KeyPoint
from cacheinf_ros.pipeline.result_overlay import draw_instances, draw_result

IMAGE = np.full((100, 120, 3), 128, np.uint8)


def drawn(**shape: object) -> np.ndarray:
    """Return the pixels that a box with a shape draws in addition to the box alone."""
    box = {"x": 10.0, "y": 20.0, "width": 80.0, "height": 60.0, "class_id": 0, "name": "", "score": 0.5}
    pictures = [draw_result(IMAGE, None, [], Decoded(boxes=(Box(**{**box, **more}),))) for more in ({}, shape)]
    return (pictures[0] != pictures[1]).any(axis=2)


def test_outlines_are_drawn_closed() -> None:
    changed = drawn(outlines=(((30.0, 40.0), (60.0, 40.0), (60.0, 70.0), (30.0, 70.0)),))
    assert changed[40, 45] and changed[70, 45] and changed[55, 30] and changed[55, 60] and not changed[55, 45]


def test_only_key_points_that_were_seen_are_drawn() -> None:
    changed = drawn(key_points=(KeyPoint(40, 50, 0.9), KeyPoint(60, 50, 0.2)))
    assert changed[50, 40] and not changed[50, 60]


def test_the_number_of_an_object_that_is_followed_is_written_above_its_box() -> None:
    assert drawn(track=3)[:20].any()


def test_an_instance_map_has_the_number_of_the_best_box_at_each_pixel() -> None:
    square = ((10.0, 10.0), (50.0, 10.0), (50.0, 50.0), (10.0, 50.0))
    moved = tuple((x + 20, y + 20) for x, y in square)
    boxes = [
        Box(x=0, y=0, width=1, height=1, class_id=0, name="", score=score, outlines=outlines)
        for score, outlines in ((0.9, (square,)), (0.8, ()), (0.7, (moved,)))
    ]
    picture = draw_instances((100, 120), boxes)
    assert picture[20, 20] == picture[40, 40] == 1
    assert picture[60, 60] == 3
    assert picture[5, 5] == 0


def test_a_region_is_framed() -> None:
    whole, part = (
        draw_result(IMAGE, None, [], None, region) for region in ((0.0, 0.0, 1.0, 1.0), (0.5, 0.0, 0.5, 1.0))
    )
    changed = (whole != part).any(axis=2)
    assert changed[50, 60] and not changed[50, 30]


def test_of_two_pictures_the_region_is_one_of_the_left() -> None:
    both = np.concatenate((IMAGE, IMAGE), axis=1)
    plain, framed = (
        draw_result(both, None, [], None, region, 2) for region in ((0.0, 0.0, 1.0, 1.0), (0.5, 0.0, 0.5, 1.0))
    )
    changed = (plain != framed).any(axis=2)
    width = IMAGE.shape[1]
    assert changed[50, width // 2] and not changed[:, width:].any()
