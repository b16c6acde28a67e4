# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Answers that follow the picture, and the alternatives to computing every frame."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from strategies import shifted, textured

from cacheinf_ros.bench.alternatives import SKIPPED, DenseRun
from cacheinf_ros.bench.flow import can_follow, follow_all
from cacheinf_ros.engine.decisions import BoxDecisions, SoftBoxes
from cacheinf_ros.engine.decisions.class_maps import ClassMaps
from cacheinf_ros.engine.decisions.raw_values import RawValues
from cacheinf_ros.graph import ModelCard
from cacheinf_ros.graph.decoder_configs import Centers

PICTURE = textured(1, 240, 320, blur=3.0)
MOVING = [shifted(PICTURE, 5 * index, -3 * index) for index in range(4)]
BOXES = BoxDecisions(ModelCard(name="test", factory="test", input_size=(96, 128), decoder=Centers()))
MAPS = ClassMaps("scores", (240, 320))


def box(x: float, y: float) -> SoftBoxes:
    return SoftBoxes(
        boxes=np.array([(x, y, 60.0, 40.0)], np.float32), classes=np.zeros(1, np.int64), weights=np.ones(1, np.float32)
    )


def test_boxes_move_with_the_picture_and_are_computed_anew() -> None:
    dense = [box(100 + 5 * index, 100 - 3 * index) for index in range(3)] + [box(0.0, 0.0)]
    answers, took_ms = follow_all(BOXES, MOVING, dense, [0, 0, 0, 3])
    for answer, right in zip(answers, dense, strict=True):
        np.testing.assert_allclose(answer.boxes, right.boxes, atol=0.5)
    assert answers[3] is dense[3] and len(took_ms) == 4


def test_pictures_that_are_too_small_for_dense_flow() -> None:
    """OpenCV raises for some sizes; for others it reads beyond the picture, which may end the process."""
    program = """
import numpy as np
from cacheinf_ros.bench.flow import follow_all
from cacheinf_ros.engine.decisions.class_maps import ClassMaps

for size in ((8, 8), (1, 1), (12, 320), (13, 31), (13, 100), (64, 2048)):
    frames = [np.random.default_rng(seed).integers(0, 256, (*size, 3), np.uint8) for seed in (0, 0, 1)]
    answers = [np.zeros(size, np.uint8)] * 3
    followed, _ = follow_all(ClassMaps("scores", size), frames, answers, [0, 0, 0])
    assert all(map(np.array_equal, followed, answers)), size
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr


def test_boxes_stay_where_nothing_is_found_again() -> None:
    blank = [np.zeros((240, 320, 3), np.uint8), textured(5, 240, 320, blur=1.0)]
    answers, _ = follow_all(BOXES, blank, [box(100, 100)] * 2, [0, 0])
    np.testing.assert_allclose(answers[1].boxes, [[100, 100, 60, 40]], atol=20)
    nothing = SoftBoxes.none()
    assert not len(follow_all(BOXES, MOVING[:2], [nothing] * 2, [0, 0])[0][1].boxes)


@pytest.mark.parametrize("dtype", [np.uint8, np.int32])
def test_class_maps_move_with_the_picture(dtype: type) -> None:
    first = np.zeros((120, 160), dtype)
    first[40:80, 50:100] = 7
    answers, _ = follow_all(MAPS, MOVING[:3], [first] * 3, [0, 0, 0])
    right = np.roll(first, (-3, 5), (0, 1))  # 10 and -6 pixels of the picture
    assert answers[2].dtype == dtype
    assert (answers[2] == right).mean() > 0.98 > (first == right).mean()


def test_raw_values_have_no_place() -> None:
    assert not can_follow(RawValues([1.0], (2, 2)), [np.zeros((1, 4), np.float32)])
    assert not can_follow(MAPS, np.zeros((1, 1), np.uint8))


def test_alternatives_cost_what_they_compute() -> None:
    maps = [np.full((4, 4), index, np.uint8) for index in range(6)]
    images = [np.zeros((8, 8, 3), np.uint8)] * 6
    run = DenseRun(task=RawValues([1.0], (4, 4)), images=images, decisions=maps, took_ms=[12.0] * 6)
    found = {each.name: each for each in run.alternatives([6.0] * 6)}
    assert set(found) == {"every 2", "every 3", SKIPPED}
    assert found["every 2"].took_ms == [12.0, None, 12.0, None, 12.0, None]
    assert [int(each[0, 0]) for each in found["every 3"].decisions] == [0, 0, 0, 3, 3, 3]
    assert [int(each[0, 0]) for each in found[SKIPPED].decisions] == [0, 1, 1, 3, 3, 5]


def test_following_the_picture_costs_time_on_every_frame() -> None:
    dense = [box(100, 100)] * 4
    run = DenseRun(task=BOXES, images=MOVING, decisions=dense, took_ms=[1e6] * 4)
    found = {each.name: each for each in run.alternatives([1e6] * 4)}
    assert set(found) == {
        f"{name}{with_flow}" for name in ("every 2", "every 3", SKIPPED) for with_flow in ("", " + flow")
    }
    took = found["every 2 + flow"].took_ms
    assert all(each is not None and (each >= 1e6) == (index % 2 == 0) for index, each in enumerate(took))
