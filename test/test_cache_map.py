# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Tests of motions, cache maps and their composition."""

from __future__ import annotations

from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import block_grids, cache_maps, image_sizes, motions

from cacheinf_ros import cache_map as cache_map_module
from cacheinf_ros.cache_map import LARGEST_SIDE, CacheMap, Motion, compose, fold, grid_shape
from cacheinf_ros.errors import CacheMapError


@given(cache_map=cache_maps())
def test_masks_and_ratio_agree(cache_map: CacheMap) -> None:
    assert np.array_equal(cache_map.reusable_mask, ~cache_map.active_mask)
    assert cache_map.reuse_ratio == pytest.approx(cache_map.reusable_mask.mean())
    assert cache_map.is_empty == (not cache_map.reusable_mask.any())


@given(cache_map=cache_maps())
def test_the_bounding_box_is_the_smallest_that_holds_all_that_is_reusable(cache_map: CacheMap) -> None:
    if cache_map.bounding_box is None:
        assert cache_map.is_empty
        return
    left, top, right, bottom = cache_map.bounding_box
    inside = cache_map.reusable_mask[top:bottom, left:right]
    assert inside.sum() == cache_map.reusable_mask.sum()
    assert all(edge.any() for edge in (inside[0], inside[-1], inside[:, 0], inside[:, -1]))
    assert inside.shape == (bottom - top, right - left)


@given(first=motions(whole=False), second=motions(whole=False))
def test_motions_multiply_and_invert(first: Motion, second: Motion) -> None:
    assert first.then(second).shift == pytest.approx(np.add(first.shift or 0, second.shift or 0))
    assert np.allclose(first.then(first.inverse()).matrix, np.eye(3))


@given(motion=motions(), across=st.floats(0.1, 10), along=st.floats(0.1, 10))
def test_a_motion_is_the_same_in_pictures_of_another_size(motion: Motion, across: float, along: float) -> None:
    dx, dy = motion.shift or (0, 0)
    assert motion.whole_shift == (dx, dy)
    assert motion.scaled(across, along).shift == pytest.approx((dx * across, dy * along))
    assert np.allclose(motion.scaled(across, along).scaled(1 / across, 1 / along).matrix, motion.matrix)
    assert motion.scaled(1, 1) is motion and Motion.translation(dx + 0.5, dy).whole_shift is None


def test_a_motion_must_be_finite_and_invertible_to_invert() -> None:
    with pytest.raises(CacheMapError, match="finite"):
        Motion.translation(np.inf, 0)
    with pytest.raises(CacheMapError, match="invertible"):
        Motion(matrix=np.zeros((3, 3))).inverse()
    assert Motion(matrix=np.diag([2.0, 2.0, 1.0])).shift is None


def test_a_grid_of_the_wrong_shape_is_refused() -> None:
    with pytest.raises(CacheMapError, match=r"\(2, 3\)"):
        CacheMap.of_blocks(np.ones((2, 2), np.bool_), (20, 25), 10, Motion.none())
    with pytest.raises(CacheMapError, match="positive"):
        CacheMap.nothing((0, 5), 10)


@pytest.mark.parametrize(
    ("size", "block_size"), [((LARGEST_SIDE + 1, 5), 10), ((5, 200_000), 200_000), ((5, 5), 2**31)]
)
def test_what_no_camera_has_is_refused_before_memory_is_asked_for(size: tuple[int, int], block_size: int) -> None:
    with pytest.raises(CacheMapError, match=f"at most {LARGEST_SIDE} pixels"):
        CacheMap.nothing(size, block_size)


def test_a_map_whose_motion_leads_nowhere_is_refused() -> None:
    with pytest.raises(CacheMapError, match="invertible"):
        CacheMap.of_blocks(np.ones((1, 1), np.bool_), (8, 8), 8, Motion(matrix=np.zeros((3, 3))))


def test_motions_whose_product_overflows_fold_to_nothing() -> None:
    far = CacheMap.of_blocks(np.ones((1, 1), np.bool_), (8, 8), 8, Motion(matrix=np.diag([1e200, 1.0, 1.0])))
    with np.errstate(over="ignore", invalid="ignore"):
        assert compose(far, far).reason == "the motions of successive maps do not fold"


def test_a_block_larger_than_the_image_takes_no_more_memory() -> None:
    assert CacheMap.of_blocks(np.ones((1, 1), np.bool_), (3, 5), LARGEST_SIDE, Motion.none()).reusable_mask.shape == (
        3,
        5,
    )


@given(data=st.data(), image_size=image_sizes(24))
def test_a_composition_never_reuses_more_than_either(data: st.DataObject, image_size: tuple[int, int]) -> None:
    earlier, later = (data.draw(cache_maps(image_size=image_size)) for _ in range(2))
    folded = compose(earlier, later)
    assert not (folded.reusable_mask & ~later.reusable_mask).any()
    dx, dy = map(int, later.motion.shift or (0, 0))
    for y, x in zip(*np.nonzero(folded.reusable_mask), strict=True):
        assert min(y - dy, x - dx) >= 0
        assert earlier.reusable_mask[y - dy, x - dx]
    assert np.allclose(folded.motion.matrix, later.motion.matrix @ earlier.motion.matrix)


@given(data=st.data(), image_size=image_sizes(24), band=st.integers(1, 100))
def test_composing_in_bands_changes_nothing(data: st.DataObject, image_size: tuple[int, int], band: int) -> None:
    earlier, later = (data.draw(cache_maps(image_size=image_size)) for _ in range(2))
    expected = compose(earlier, later).reusable
    with patch.object(cache_map_module, "_BAND", band):
        assert np.array_equal(compose(earlier, later).reusable, expected)


@given(data=st.data(), image_size=image_sizes())
def test_composition_with_everything_at_rest_changes_nothing(data: st.DataObject, image_size: tuple[int, int]) -> None:
    some = data.draw(cache_maps(image_size=image_size, still=True))
    everything = CacheMap.of_blocks(np.ones_like(some.reusable), image_size, some.block_size, Motion.none())
    assert np.array_equal(compose(everything, some).reusable, some.reusable)
    assert np.array_equal(compose(some, everything).reusable, some.reusable)


@given(data=st.data(), image_size=image_sizes())
def test_maps_on_one_grid_at_rest_fold_in_any_order(data: st.DataObject, image_size: tuple[int, int]) -> None:
    block_size = data.draw(st.integers(1, 12))
    grids = [data.draw(block_grids(grid_shape(image_size, block_size))) for _ in range(3)]
    a, b, c = (CacheMap.of_blocks(grid, image_size, block_size, Motion.none()) for grid in grids)
    assert np.array_equal(compose(compose(a, b), c).reusable, np.logical_and.reduce(grids))
    assert np.array_equal(compose(a, compose(b, c)).reusable, np.logical_and.reduce(grids))


@given(data=st.data(), image_size=image_sizes(16))
def test_folding_from_either_end_is_sound(data: st.DataObject, image_size: tuple[int, int]) -> None:
    """No order of folding block maps reuses what pixel-wise folding would not reuse."""
    a, b, c = (data.draw(cache_maps(image_size=image_size)) for _ in range(3))
    exact = np.ones(image_size, np.bool_)
    for y, x in np.ndindex(*image_size):
        for cache_map, later in ((c, []), (b, [c]), (a, [c, b])):
            at_y = y - sum(int((m.motion.shift or (0, 0))[1]) for m in later)
            at_x = x - sum(int((m.motion.shift or (0, 0))[0]) for m in later)
            inside = 0 <= at_y < image_size[0] and 0 <= at_x < image_size[1]
            exact[y, x] &= inside and bool(cache_map.reusable_mask[at_y, at_x])
    for folded in (compose(compose(a, b), c), compose(a, compose(b, c))):
        assert not (folded.reusable_mask & ~exact).any()


def test_maps_of_different_image_sizes_fold_to_nothing() -> None:
    everything = CacheMap.of_blocks(np.ones((1, 1), np.bool_), (8, 8), 8, Motion.none())
    other = CacheMap.of_blocks(np.ones((1, 1), np.bool_), (7, 8), 8, Motion.none())
    assert compose(everything, other).reuse_ratio == 0
    assert "size" in compose(everything, other).reason


def test_a_homography_that_folds_points_to_infinity_reuses_none_of_them() -> None:
    matrix = np.eye(3)
    matrix[2, 0] = 0.1  # x = 10 of the frame was at infinity
    everything = CacheMap.of_blocks(np.ones((2, 2), np.bool_), (16, 16), 8, Motion.none())
    later = CacheMap.of_blocks(np.ones((2, 2), np.bool_), (16, 16), 8, Motion(matrix=matrix))
    assert compose(everything, later).reuse_ratio < 1


@pytest.mark.parametrize("moving", [False, True])
def test_maps_fold_as_if_composed_one_by_one(moving: bool) -> None:
    rng = np.random.default_rng(0)
    motions = [Motion.translation(8.0, 0.0) if moving and number == 1 else Motion.none() for number in range(4)]
    maps = [CacheMap.of_blocks(rng.random((6, 8)) < 0.8, (48, 64), 8, motion) for motion in motions]
    expected = compose(compose(compose(maps[0], maps[1]), maps[2]), maps[3])
    found = fold(maps)
    assert np.array_equal(found.reusable, expected.reusable) and found.reusable.any()
    assert np.array_equal(found.motion.matrix, expected.motion.matrix)
