# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Points become frames that show in which cells of a grid they lie."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cacheinf_ros.errors import ConfigError
from cacheinf_ros.sources import VoxelGrid, parse_voxel_grid
from cacheinf_ros.sources.voxel_grid import EXAMPLE

ORDERS = ("xyz", "xzy", "yxz", "yzx", "zxy", "zyx")


def test_a_point_is_a_pixel_of_its_slice() -> None:
    """Worked out by hand: 4 x 3 x 2 cells of one metre, slices from below to above, x downwards, y to the right."""
    grid = parse_voxel_grid("4x3x2, 0..4, -1..2, 0..2")
    assert (grid.slices, grid.frame_size) == (2, (4, 6))
    frame = grid.frame(np.array([[0.5, -0.5, 0.5], [3.9, 1.9, 1.9], [2.0, 0.0, 1.0], [2.1, 0.2, 1.1]]).T)
    assert frame.shape == (4, 6, 3) and frame.dtype == np.uint8
    assert sorted(map(tuple, np.argwhere(frame[..., 0]).tolist())) == [(0, 0), (2, 4), (3, 5)]
    assert set(np.unique(frame)) == {0, 255}
    np.testing.assert_array_equal(frame[..., 0], frame[..., 2])


def test_points_outside_and_those_not_known_are_left_out() -> None:
    grid = parse_voxel_grid("2x2x2, 0..2, 0..2, 0..2")
    nowhere = [[np.nan, 1, 1], [1, np.inf, 1], [-0.1, 1, 1], [2, 1, 1], [1, 1, 1e30], [1, 1, -np.inf]]
    assert not grid.frame(np.array(nowhere).T).any()
    assert not grid.frame(np.empty((3, 0))).any()


@given(
    cells=st.tuples(*[st.integers(1, 6)] * 3),
    order=st.sampled_from(ORDERS),
    seed=st.integers(0, 2**31),
    is_float32=st.booleans(),
)
def test_the_grid_is_that_of_numpys_histogram(
    cells: tuple[int, int, int], order: str, seed: int, is_float32: bool
) -> None:
    rng = np.random.default_rng(seed)
    ranges = tuple((float(least), float(least + width)) for least, width in rng.uniform([-9, 0.1], [9, 20], (3, 2)))
    grid = VoxelGrid(cells, (ranges[0], ranges[1], ranges[2]), order)
    points = rng.uniform(-12, 32, (50, 3)).astype(np.float32 if is_float32 else np.float64)
    counts, _ = np.histogramdd(points.astype(np.float64), cells, ranges)
    slices = counts.transpose([("xyz").index(axis) for axis in order]) > 0
    np.testing.assert_array_equal(grid.frame(points.T)[..., 0] > 0, np.concatenate(list(slices), axis=1))


@given(
    cells=st.tuples(*[st.integers(1, 128)] * 3),
    ends=st.tuples(*[st.tuples(st.floats(-1e5, 1e5), st.floats(0.01, 1e5))] * 3),
    order=st.sampled_from(ORDERS),
)
def test_what_is_written_is_read(
    cells: tuple[int, int, int], ends: tuple[tuple[float, float], ...], order: str
) -> None:
    x, y, z = ((least, least + length) for least, length in ends)
    grid = VoxelGrid(cells, (x, y, z), order)
    assert parse_voxel_grid(str(grid)) == grid == parse_voxel_grid(str(grid).replace(" ", ""))


def test_the_example_is_a_grid() -> None:
    assert parse_voxel_grid("2 X 2 x 2, 0 .. 1,0..1, 0..1E3, ZXY") == parse_voxel_grid("2x2x2,0..1,0..1,0..1000")
    assert parse_voxel_grid(EXAMPLE).frame_size == (256, 8192)
    assert parse_voxel_grid(f"{EXAMPLE}, xyz").frame_size == (256, 8192)
    assert parse_voxel_grid(f"{EXAMPLE}, xyz").slices == 256


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "give cells along x, y and z"),
        ("256x256x32", "give cells along x, y and z"),
        ("256x256, 0..1, 0..1, 0..1", "give cells along x, y and z"),
        ("2x2x2, 0..1, 0..1, 0-1", "give cells along x, y and z"),
        ("0x2x2, 0..1, 0..1, 0..1", "0 cells along x: give at least one"),
        ("2x2x2, 0..1, 1..0, 0..1", r"1\.\.0 along y: give the lower end first"),
        ("2x2x2, 0..1, 0..1, 0..nan", "give cells along x, y and z"),
        ("2x2x2, 0..1, 0..1, 0..1e999", r"0\.\.inf along z"),
        ("2x2x2, 0..1e-320, 0..1, 0..1", r"0\.\.\S+ along x: .* the higher one at least 1e-06 above it"),
        ("2x2x2, 0...5, 0..1, 0..1", "give cells along x, y and z"),
        ("1_0x2x2, 0..1, 0..1, 0..1", "give cells along x, y and z"),
        ("2x2x2, 0..1, 0..1, 0..1, xxy", "does not name x, y and z once each"),
        ("999x999x999, 0..1, 0..1, 0..1", "999 slices of 999x999 cells side by side are more than a frame shows"),
        ("512x512x40, 0..1, 0..1, 0..1", "40 slices of 512x512 cells .*: 16384 pixels along a side"),
        (f"2x2x{'9' * 5000}, 0..1, 0..1, 0..1", "give cells along x, y and z"),
    ],
)
def test_what_is_no_grid_is_refused(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        parse_voxel_grid(text)
