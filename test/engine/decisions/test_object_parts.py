# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Masks and key points are part of what an answer must have right: a person who waves stays in one box."""

from __future__ import annotations

from dataclasses import replace
from math import exp

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cacheinf_ros.engine.decisions import BoxDecisions, SoftBoxes
from cacheinf_ros.engine.decisions.object_parts import OTHER_SIGMA, similarity
from cacheinf_ros.engine.decisions.soft_boxes import MASK_SIZE
from cacheinf_ros.engine.decoders import Box, KeyPoint
from cacheinf_ros.graph.card import ModelCard
from cacheinf_ros.graph.decoder_configs import Grids, Yolo

POSES = BoxDecisions(ModelCard(name="poses", input_size=(96, 128), decoder=Yolo(key_points=4, score_threshold=0.5)))
MASKS = BoxDecisions(ModelCard(name="masks", input_size=(96, 128), decoder=Yolo(masks="p", score_threshold=0.5)))
PLACES = ((20.0, 20.0), (40.0, 20.0), (20.0, 60.0), (40.0, 60.0))


def person(*points: tuple[float, float], x: float = 10, scores: tuple[float, ...] = (1, 1, 1, 1)) -> SoftBoxes:
    """Return one person of 40 x 80 pixels with four key points."""
    given = tuple(KeyPoint(*place, score) for place, score in zip(points, scores, strict=True))
    return POSES.of_boxes([Box(x=x, y=10, width=40, height=80, class_id=0, name="", score=1.0, key_points=given)])


def cut_out(left: float, right: float) -> SoftBoxes:
    """Return one object whose mask is a part of its box of 100 x 100 pixels, from left to right."""
    outline = ((left, 0.0), (right, 0.0), (right, 99.9), (left, 99.9))
    return MASKS.of_boxes([Box(x=0, y=0, width=100, height=100, class_id=0, name="", score=1.0, outlines=(outline,))])


def test_similarity_by_hand() -> None:
    """COCO: exp(-d^2 / (2 s^2 (2 sigma)^2)); the nose's sigma is 0.026."""
    first, second = np.zeros((1, 17, 3), np.float32), np.zeros((1, 17, 3), np.float32)
    second[0, 0, 0] = 5.2
    found = similarity(first, second, np.array([100.0 * 100.0], np.float32))
    assert found[0, 0] == pytest.approx(exp(-(5.2**2) / (2 * 100**2 * 0.052**2))) == pytest.approx(exp(-0.5))
    assert found[0, 1:].tolist() == [1.0] * 16
    first, second = first[:, :5], second[:, :5]
    other = similarity(first, second, np.array([100.0 * 100.0], np.float32))
    assert other[0, 0] == pytest.approx(exp(-(5.2**2) / (2 * 100**2 * (2 * OTHER_SIGMA) ** 2)))


def test_key_points_at_another_place_are_wrong() -> None:
    agreed = person(*PLACES)
    waving = person((20, 20), (40, 20), (20, 30), (40, 30))
    score = POSES.score(waving, agreed, None)
    assert (score.right, score.total) == (pytest.approx(2 * 3 / 5), 2.0)  # of the box and four points two are wrong
    assert POSES.score(agreed, agreed, None).right == pytest.approx(2.0)


def test_only_key_points_that_moved_move() -> None:
    before, now = person(*PLACES), person((20, 20), (40, 20), (20, 60), (40, 30))
    held, fresh = POSES.score(before, now, before), POSES.score(now, now, before)
    assert held.moving_total == fresh.moving_total == pytest.approx(2 / 5)
    assert held.moving_right == 0.0 and fresh.moving_right == pytest.approx(2 / 5)
    newly = POSES.score(now, now, SoftBoxes.none())
    assert newly.moving_total == newly.total == 2.0


def test_key_points_that_are_not_seen_do_not_count() -> None:
    agreed = person(*PLACES, scores=(1, 1, 1, 0.2))
    score = POSES.score(person((20, 20), (40, 20), (20, 60), (0, 0)), agreed, agreed)
    assert (score.right, score.moving_total) == (pytest.approx(2.0), 0.0)


def test_an_answer_without_key_points_has_only_its_box_right() -> None:
    bare = POSES.of_boxes([Box(x=10, y=10, width=40, height=80, class_id=0, name="", score=1.0)])
    assert POSES.score(bare, person(*PLACES), None).right == pytest.approx(2 / 5)


def test_key_points_that_move_are_where_their_line_is() -> None:
    window = [person(*((x + 2.0 * t, y) for x, y in PLACES), scores=(1, 1, 1, 0.1 * t)) for t in range(5)]
    agreed = POSES.consensus(window, 3)
    assert agreed.key_points is not None
    assert np.allclose(agreed.key_points[0, :, :2], [(x + 6.0, y) for x, y in PLACES], atol=1e-3)
    assert agreed.key_points[0, :, 2] == pytest.approx([1, 1, 1, 0.2])  # the median


def test_masks_are_right_where_they_overlap_by_half() -> None:
    agreed = cut_out(0, 60)
    assert MASKS.score(cut_out(0, 45), agreed, None).right == pytest.approx(2.0)
    assert MASKS.score(cut_out(30, 90), agreed, None).right == pytest.approx(1.0)  # the box alone


def test_a_mask_moves_within_its_box() -> None:
    before, now = cut_out(0, 60), cut_out(30, 90)
    score = MASKS.score(before, now, before)
    assert (score.right, score.moving_right, score.moving_total) == (pytest.approx(1.0), 0.0, pytest.approx(1.0))


def test_the_mask_is_what_at_least_half_cover() -> None:
    agreed = MASKS.consensus([cut_out(0, 60), cut_out(0, 60), cut_out(30, 90)], 2)
    assert agreed.masks is not None
    np.testing.assert_array_equal(agreed.masks, cut_out(0, 60).masks)


def test_frames_without_anything_are_no_trouble() -> None:
    none = POSES.of_boxes([])
    assert none.key_points is not None and none.key_points.shape == (0, 4, 3)
    agreed = POSES.consensus([none, person(*PLACES), none], 1)
    assert len(agreed.boxes) == 0
    assert POSES.score(none, agreed, agreed).total == 0.0
    assert POSES.score(person(*PLACES), agreed, none).total == 1.0
    empty = MASKS.of_boxes([Box(x=0, y=0, width=0, height=0, class_id=0, name="", score=1.0)])
    assert empty.masks is not None and not empty.masks.any()


def test_every_decoder_with_key_points_is_judged_by_them() -> None:
    faces = BoxDecisions(ModelCard(name="faces", input_size=(96, 128), decoder=Grids()))
    found = faces.of_boxes([Box(x=0, y=0, width=9, height=9, class_id=0, name="", score=1.0)])
    assert found.key_points is not None and found.key_points.shape == (1, 5, 3)
    boxes_only = BoxDecisions(ModelCard(name="boxes", input_size=(96, 128), decoder=Yolo()))
    assert boxes_only.of_boxes([]).key_points is None and boxes_only.of_boxes([]).masks is None


@given(seed=st.integers(0, 10_000))
def test_right_is_never_more_than_all(seed: int) -> None:
    rng = np.random.default_rng(seed)

    def some() -> SoftBoxes:
        count = int(rng.integers(0, 4))
        return SoftBoxes(
            boxes=np.concatenate([rng.uniform(0, 20, (count, 2)), rng.uniform(20, 40, (count, 2))], axis=1).astype(
                np.float32
            ),
            classes=rng.integers(0, 2, count),
            weights=rng.random(count).astype(np.float32),
            key_points=rng.uniform(0, 20, (count, 3, 3)).astype(np.float32) * np.float32([1, 1, 0.05]),
            masks=rng.random((count, MASK_SIZE, MASK_SIZE)) < rng.random((count, 1, 1)),
        )

    answer, agreed, before = some(), some(), some()
    score = POSES.score(answer, agreed, before)
    assert 0 <= score.right <= score.total + 1e-5
    assert 0 <= score.moving_right <= score.moving_total + 1e-5
    assert score.moving_total <= score.total + 1e-5
    same = POSES.score(agreed, agreed, before)
    masked = replace(agreed, masks=None)
    assert same.right <= same.total + 1e-5
    assert POSES.score(masked, masked, None).right == pytest.approx(masked.weights.sum() * 2, abs=1e-4)
