# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""A list of a frame's classes is written, and a class map is drawn over the picture."""

from __future__ import annotations

import numpy as np
import pytest

from cacheinf_ros.bench.page.player import _answer
from cacheinf_ros.bench.page.worst_frames import draw_decision
from cacheinf_ros.bench.trace import Still

LABELS = ("floor", "cup", "door", "chair")


def test_several_classes_of_a_frame_are_named() -> None:
    still = Still.of(np.full((120, 160, 3), 90, np.uint8))
    classes = np.array([[3, 1]], np.int64)
    assert _answer(classes, LABELS) == "chair, cup"
    changed = (draw_decision(still, classes, LABELS) != still.picture()).any(2)
    assert changed[:30].any() and not changed[30:].any(), "the names stand at the top, and nothing is tinted"
    assert _answer(classes[:, :1], LABELS) == "chair"


def test_a_class_map_is_drawn() -> None:
    still = Still.of(np.full((120, 160, 3), 90, np.uint8))
    classes = np.zeros((6, 8), np.uint8)
    classes[:, 4:] = 2
    drawn = draw_decision(still, classes, LABELS)
    assert (drawn[:, 20] != drawn[:, -20]).any(1).all()
    assert str(_answer(classes, LABELS)).startswith("data:image/png")


def test_of_two_pictures_the_left_one_is_tinted() -> None:
    still = Still.of(np.full((120, 320, 3), 90, np.uint8), 2)
    drawn = draw_decision(still, np.full((6, 8), 2, np.uint8), LABELS)
    changed = (drawn != still.picture()).any(2)
    half = drawn.shape[1] // 2
    assert changed[:, : half - 8].all() and not changed[:, half + 8 :].any()


def test_many_pictures_are_laid_on_each_other() -> None:
    """Four of 60 x 80 pixels, of which the third and the fourth show something: in its upper left, and lower right."""
    frame = np.zeros((60, 4 * 80, 3), np.uint8)
    frame[:20, 2 * 80 : 2 * 80 + 20] = 255
    frame[40:, 4 * 80 - 20 :] = 255
    still = Still.of(frame, 4)
    assert (still.size, still.pictures) == ((60, 80), 1)
    shown = still.picture()
    height, width = shown.shape[:2]
    assert [shown[5, 5].min(), shown[-5, -5].min(), shown[height // 2, width // 2].max()] == pytest.approx(
        [255, 255, 0], abs=9
    )
