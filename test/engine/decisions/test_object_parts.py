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
from cacheinf_ros.engine.decisions.object_parts import OTHER_SIGMA, key_point_similarity
from cacheinf_ros.engine.decisions.soft_boxes import MASK_SIZE, packed_masks
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
    """Return one object whose mask is a part of its box of 200 x 100 pixels, from left to right, in the upper half."""
    outline = ((50 + left, 30.0), (50 + right, 30.0), (50 + right, 79.9), (50 + left, 79.9))
    box = Box(x=50, y=30, width=200, height=100, class_id=0, name="", score=1.0, outlines=(outline,))
    return MASKS.of_boxes([box])


def pixels(objects: SoftBoxes) -> np.ndarray:
    assert objects.masks is not None
    return np.unpackbits(objects.masks, axis=1).reshape(-1, MASK_SIZE, MASK_SIZE)


def test_masks_are_drawn_within_their_boxes() -> None:
    (mask,) = pixels(cut_out(0, 99.9))
    assert mask[: MASK_SIZE // 2, : MASK_SIZE // 2].all()
    assert mask.sum() == (MASK_SIZE // 2) ** 2


@pytest.mark.parametrize("far", [1e12, float("nan"), float("-inf")])
def test_outlines_far_outside_their_boxes_are_cut_off(far: float) -> None:
    outlines = (((50.0, 30.0), (far, 30.0), (far, far)), ())
    boxes = [Box(x=50, y=30, width=w, height=w, class_id=0, name="", score=1.0, outlines=outlines) for w in (0, 10)]
    assert MASKS.of_boxes(boxes).masks is not None


def test_similarity_by_hand() -> None:
    """COCO: exp(-d^2 / (2 s^2 (2 sigma)^2)); the nose's sigma is 0.026."""
    first, second = np.zeros((1, 17, 3), np.float32), np.zeros((1, 17, 3), np.float32)
    second[0, 0, 0] = 5.2
    areas = np.array([50.0 * 200.0], np.float32)
    found = key_point_similarity(first, second, areas)
    assert found[0, 0] == pytest.approx(exp(-(5.2**2) / (2 * 100**2 * 0.052**2))) == pytest.approx(exp(-0.5))
    assert found[0, 1:].tolist() == [1.0] * 16
    other = key_point_similarity(first[:, :5], second[:, :5], areas)
    assert other[0, 0] == pytest.approx(exp(-(5.2**2) / (2 * 100**2 * (2 * OTHER_SIGMA) ** 2)))


def test_the_area_is_that_of_the_box() -> None:
    """On a box of 40 x 80 pixels a point may be 0.1 sqrt(2 ln 2) sqrt(3200) = 6.66 pixels off."""
    agreed = person(*PLACES)
    for off, right in ((6.6, 5 / 5), (6.7, 4 / 5)):
        answer = person((20 + off, 20), *PLACES[1:])
        assert POSES.score(answer, agreed, None).right == pytest.approx(2 * right)


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


def test_key_points_that_nobody_sees_do_not_count() -> None:
    agreed = person(*PLACES, scores=(1, 1, 1, 0.3))
    answer = person((20, 20), (40, 20), (20, 60), (0, 0), scores=(1, 1, 1, 0.3))
    score = POSES.score(answer, agreed, agreed)
    assert (score.right, score.moving_total) == (pytest.approx(2.0), 0.0)
    wrong = person((20, 20), (40, 20), (60, 60), (0, 0), scores=(1, 1, 1, 0.3))
    assert POSES.score(wrong, agreed, agreed).right == pytest.approx(2 * 3 / 4)


@pytest.mark.parametrize(
    ("ours", "theirs", "right"), [(0.7, 0.3, 4), (0.3, 0.7, 4), (0.7, 0.45, 5), (0.45, 0.55, 5), (0.55, 0.3, 5)]
)
def test_a_key_point_that_only_one_sees_is_wrong(ours: float, theirs: float, right: int) -> None:
    """A score within 0.1 of 0.5 is neither: then the place decides."""
    answer, agreed = (person(*PLACES, scores=(1, 1, 1, score)) for score in (ours, theirs))
    assert POSES.score(answer, agreed, None).right == pytest.approx(2 * right / 5)


def test_a_hand_that_is_hidden_has_moved() -> None:
    before, now = person(*PLACES), person(*PLACES, scores=(1, 1, 1, 0.1))
    guessed = person(*PLACES[:3], (0, 0), scores=(1, 1, 1, 0.1))
    held, fresh = POSES.score(before, now, before), POSES.score(guessed, now, before)
    assert (held.moving_right, held.moving_total) == (0.0, pytest.approx(2 / 5))
    assert (fresh.moving_right, fresh.moving_total) == (pytest.approx(2 / 5), pytest.approx(2 / 5))
    assert POSES.score(SoftBoxes.none(), now, before).moving_total == pytest.approx(1 / 5)
    shown = POSES.score(now, before, now)  # and the other way round
    assert (shown.moving_right, shown.moving_total) == (0.0, pytest.approx(2 / 5))


def test_a_pair_moves_by_the_parts_that_either_sees() -> None:
    scores = (1.0, 1.0, 1.0, 0.3)
    before, now = (person(*PLACES[:2], (20, y), PLACES[3], scores=scores) for y in (60, 30))
    answer = person(*PLACES[:2], (20, 30), PLACES[3], scores=(1, 1, 1, 0.7))
    score = POSES.score(answer, now, before)
    assert (score.moving_right, score.moving_total) == (pytest.approx(2 / 5), pytest.approx(2 / 5))


def test_an_answer_without_key_points_has_only_its_box_right() -> None:
    bare = POSES.of_boxes([Box(x=0, y=0, width=40, height=80, class_id=0, name="", score=1.0)])
    at_origin = person(*[(0.0, 0.0)] * 4, x=0)
    assert POSES.score(bare, replace(at_origin, boxes=bare.boxes), None).right == pytest.approx(2 / 5)


def test_a_box_moves_where_it_overlaps_its_earlier_place_by_less_than_080() -> None:
    here, moved = person(*PLACES), person(*((x + 9, y) for x, y in PLACES), x=19)  # overlap 31 / 49
    score = POSES.score(moved, moved, here)
    assert score.moving_total == 2.0  # the box and all key points
    bare = [replace(each, key_points=None) for each in (moved, here)]
    assert POSES.score(bare[0], bare[0], bare[1]).moving_total == 2.0
    far = person(*PLACES, x=40)  # overlap 10 / 70: another person, so all of this one is new
    assert POSES.score(here, here, far).moving_total == 2.0


def test_other_boxes_move_as_much_as_what_they_touch() -> None:
    before, now = person(*PLACES), person((20, 20), (40, 20), (20, 60), (40, 30))
    wrong = replace(now, classes=now.classes + 1)  # no match: of another class
    score = POSES.score(wrong, now, before)
    assert (score.right, score.total) == (0.0, 2.0)
    assert score.moving_total == pytest.approx(2 / 5)
    apart = replace(wrong, boxes=wrong.boxes + np.float32([500, 0, 0, 0]))
    assert POSES.score(apart, now, before).moving_total == pytest.approx(1 / 5)


def test_key_points_that_move_are_where_their_line_is() -> None:
    scores = (0.1, 0.1, 0.1, 0.9, 1.0)
    window = [person(*((x + 2.0 * t, y) for x, y in PLACES), scores=(1, 1, 1, scores[t])) for t in range(5)]
    agreed = POSES.consensus(window, 3)
    assert agreed.key_points is not None
    assert np.allclose(agreed.key_points[0, :, :2], [(x + 6.0, y) for x, y in PLACES], atol=1e-3)
    assert agreed.key_points[0, :, 2] == pytest.approx([1, 1, 1, 0.1])  # the median


def test_where_a_key_point_is_not_seen_its_place_hardly_counts() -> None:
    guessed = person(*PLACES[:3], (0, 0), scores=(1, 1, 1, 0.1))
    agreed = POSES.consensus([person(*PLACES), guessed] * 4 + [person(*PLACES)], 4)
    assert agreed.key_points is not None
    assert np.allclose(agreed.key_points[0, 3, :2], PLACES[3], atol=1.0)


def test_masks_are_right_where_they_overlap_by_half() -> None:
    agreed = cut_out(0, 120)
    assert MASKS.score(cut_out(0, 90), agreed, None).right == pytest.approx(2.0)
    assert MASKS.score(cut_out(60, 180), agreed, None).right == pytest.approx(1.0)  # the box alone


def test_a_mask_moves_within_its_box() -> None:
    before, now = cut_out(0, 120), cut_out(60, 180)
    score = MASKS.score(before, now, before)
    assert (score.right, score.moving_right, score.moving_total) == (pytest.approx(1.0), 0.0, pytest.approx(1.0))
    nearly = MASKS.score(before, cut_out(10, 120), before)
    assert nearly.moving_total == 0.0


def test_the_mask_is_what_at_least_half_cover() -> None:
    near, far = cut_out(0, 120), cut_out(60, 180)
    bare = replace(near, masks=np.zeros_like(near.masks))
    np.testing.assert_array_equal(MASKS.consensus([near, near, far], 2).masks, near.masks)
    np.testing.assert_array_equal(MASKS.consensus([near, near, far, far], 2).masks, near.masks | far.masks)
    np.testing.assert_array_equal(MASKS.consensus([near, bare, bare], 2).masks, near.masks)  # of those that there are
    assert MASKS.score(bare, near, None).right == pytest.approx(1.0)
    assert MASKS.score(bare, bare, None).right == pytest.approx(2.0)
    gone = MASKS.score(bare, bare, near)
    assert (gone.moving_right, gone.moving_total) == (pytest.approx(1.0), pytest.approx(1.0))


def test_objects_of_different_networks_are_not_compared() -> None:
    agreed = person(*PLACES)
    assert agreed.key_points is not None
    for other in (replace(agreed, key_points=None), replace(agreed, key_points=agreed.key_points[:, :3])):
        with pytest.raises(ValueError, match="different networks"):
            POSES.score(other, agreed, None)


def test_frames_without_anything_are_no_trouble() -> None:
    none = POSES.of_boxes([])
    assert none.key_points is not None and none.key_points.shape == (0, 4, 3)
    agreed = POSES.consensus([none, person(*PLACES), none], 1)
    assert len(agreed.boxes) == 0
    assert POSES.score(none, agreed, agreed).total == 0.0
    assert POSES.score(person(*PLACES), agreed, none).total == 1.0


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
            masks=packed_masks(rng.random((count, MASK_SIZE, MASK_SIZE)) < rng.random((count, 1, 1))),
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
