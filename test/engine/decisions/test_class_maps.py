# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Class map decisions: the majority of neighbouring frames is taken to be right."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from cacheinf_ros.cache_map import Motion
from cacheinf_ros.engine import Selection, decode
from cacheinf_ros.engine.decisions import Score, consensus_of_all, score_all
from cacheinf_ros.engine.decisions.class_maps import ClassMaps, shows_classes
from cacheinf_ros.graph import ModelCard, Resize

TASK = ClassMaps("scores", (8, 8))


def test_the_best_class_of_each_pixel_is_read() -> None:
    scores = np.zeros((1, 3, 2, 2), np.float32)
    scores[0, 2, 0, 1] = scores[0, 1, 1, 1] = 1.0
    assert TASK.read({"scores": scores}, (2, 2)).tolist() == [[0, 2], [0, 1]]


@pytest.mark.parametrize("shape", [(1, 64, 48), (1, 1, 64, 48)])
def test_classes_may_be_given_as_they_are(shape: tuple[int, ...]) -> None:
    classes = np.random.default_rng(0).integers(0, 5, shape)
    task = ClassMaps("classes", (64, 48), most_pixels=200)
    picked = classes.reshape(64, 48)[::4, ::4]
    assert np.array_equal(task.read({"classes": classes}, (64, 48)), picked)
    assert np.array_equal(task.read({"classes": classes}, (64, 48), Motion.translation(4, 0))[:, 1:], picked[:, :-1])
    assert shows_classes(classes) and not shows_classes(classes.astype(np.float32))


@pytest.mark.parametrize(("resize", "rows"), [("letterbox", slice(14, 50)), ("letterbox_corner", slice(0, 36))])
@pytest.mark.parametrize("shape", [(1, 5, 64, 64), (1, 64, 64)], ids=["scores", "classes"])
def test_margins_are_not_looked_at(shape: tuple[int, ...], resize: Resize, rows: slice) -> None:
    """A frame of 16:9 fills 36 of the 64 rows of a square input; margins never change, and would count as right."""
    values = np.random.default_rng(0).random(shape).astype(np.float32)
    classes = values[0].argmax(0) if len(shape) == 4 else np.round(4 * values[0]).astype(np.int64)
    outputs = {"scores": values if len(shape) == 4 else classes[None]}
    task = ClassMaps("scores", (64, 64), resize=resize)
    assert np.array_equal(task.read(outputs, (720, 1280)), classes[rows])
    moved = task.read(outputs, (720, 1280), Motion.translation(0, 3))
    assert np.array_equal(moved[3:], classes[rows][:-3])
    card = ModelCard(input_size=(64, 64), resize=resize, decoder={"kind": "map"})
    published = decode(outputs, card, (720, 1280), Motion.translation(0, 3), Selection()).class_map
    assert np.array_equal(moved, published)  # what comes from the margin, too
    turned = Motion(matrix=np.array([[-1.0, 0, 63], [0, -1, 35 + 2 * rows.start], [0, 0, 1]]))  # about the middle
    assert np.array_equal(task.read(outputs, (720, 1280), turned), classes[rows][::-1, ::-1])


def test_classes_beyond_a_byte_stay_what_they_are() -> None:
    scores = np.zeros((1, 1000), np.float32)
    scores[0, 300] = 1.0
    task = ClassMaps("scores", (64, 48))
    assert task.read({"scores": scores}, (64, 48), Motion.translation(4, 0)).tolist() == [[300]]
    maps = np.zeros((1, 300, 8, 8), np.float32)
    maps[0, 299] = 1.0
    assert (task.read({"scores": maps}, (64, 48), Motion.translation(4, 0)) == 299).all()


def test_a_vector_is_one_decision() -> None:
    assert TASK.read({"scores": np.array([[0.1, 0.7, 0.2]], np.float32)}, (2, 2)).tolist() == [[1]]


def test_of_large_maps_some_pixels_are_looked_at() -> None:
    scores = np.random.default_rng(0).random((1, 4, 64, 48), np.float32)
    few = ClassMaps("scores", (64, 48), most_pixels=200).read({"scores": scores}, (64, 48))
    assert few.size <= 200
    assert np.array_equal(few, scores[0].argmax(0)[::4, ::4])


def test_most_frames_are_right_and_a_tie_is_the_frame_s_own() -> None:
    window = [np.array([[v]], np.uint8) for v in (1, 2, 2, 1)]
    assert TASK.consensus(window, 0) == [[1]]
    assert TASK.consensus(window, 1) == [[2]]
    assert TASK.consensus([*window, np.array([[2]], np.uint8)], 0) == [[2]]


@given(arrays(np.uint8, st.tuples(st.integers(1, 7), st.just(3), st.just(4)), elements=st.integers(0, 3)), st.data())
def test_no_class_is_seen_more_often_than_the_consensus(frames: np.ndarray, data: st.DataObject) -> None:
    index = data.draw(st.integers(0, len(frames) - 1))
    agreed = TASK.consensus(list(frames), index)
    votes = (frames == agreed).sum(0)
    for class_id in range(4):
        assert (votes >= (frames == class_id).sum(0)).all()


def test_where_the_consensus_moved_counts_by_itself() -> None:
    before, now = np.array([[0, 0, 1, 1]], np.uint8), np.array([[0, 0, 1, 2]], np.uint8)
    answer = np.array([[0, 5, 1, 1]], np.uint8)
    assert TASK.score(answer, now, before) == Score(right=2, total=4, moving_right=0, moving_total=1)
    assert TASK.score(answer, now, None) == Score(right=2, total=4)


def test_without_flicker_dense_is_always_right() -> None:
    frames = [np.full((2, 2), 3, np.uint8)] * 9
    agreed = consensus_of_all(TASK, frames)
    assert all(score.whole == 1.0 for score in score_all(TASK, frames, agreed))
