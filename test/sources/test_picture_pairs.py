# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The pictures of two cameras are paired by their stamps, whatever is lost and however the cameras are clocked."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from cacheinf_ros.sources import PicturePairs, side_by_side

Stamps = list[int]


def paired(left: Stamps, right: Stamps, most_apart: int, order: list[bool] | None = None) -> list[tuple[int, int]]:
    """Pair stamps that arrive in the order of time, or as ``order`` says (True: the next left one)."""
    pairs: PicturePairs[int] = PicturePairs(most_apart, in_order=order is None)
    arrivals = sorted([(stamp, 0) for stamp in left] + [(stamp, 1) for stamp in right])
    sides = [side == 0 for _, side in arrivals] if order is None else order
    waiting, found = {True: list(left), False: list(right)}, []
    for is_left in sides:
        stamp = waiting[is_left].pop(0)
        found += pairs.add_left(stamp, stamp) if is_left else pairs.add_right(stamp, stamp)
    found += pairs.finish()
    assert pairs.unpaired == len(left) - len(found)
    return found


def nearest(left: Stamps, right: Stamps, most_apart: int) -> list[tuple[int, int]]:
    best = [(each, min(right, key=lambda other: (abs(other - each), -other), default=None)) for each in left]
    return [(each, other) for each, other in best if other is not None and abs(other - each) <= most_apart]


STAMPS = st.lists(st.integers(0, 60), max_size=12, unique=True).map(sorted)


@given(left=STAMPS, right=STAMPS, most_apart=st.integers(0, 20), data=st.data())
def test_every_left_picture_gets_the_nearest_right_one(
    left: Stamps, right: Stamps, most_apart: int, data: st.DataObject
) -> None:
    expected = nearest(left, right, most_apart)
    assert paired(left, right, most_apart) == expected
    order = data.draw(st.permutations([True] * len(left) + [False] * len(right)))
    assert paired(left, right, most_apart, order) == expected  # whichever messages are faster


def test_pictures_of_one_time_are_paired_at_once() -> None:
    pairs: PicturePairs[str] = PicturePairs(5)
    assert pairs.add_left(10, "left") == []
    assert pairs.add_right(10, "right") == [("left", "right")]
    assert pairs.add_right(20, "right 2") == []
    assert pairs.add_left(20, "left 2") == [("left 2", "right 2")]


def test_live_a_right_picture_just_before_the_left_one_is_taken_at_once() -> None:
    pairs: PicturePairs[int] = PicturePairs(20, is_live=True)
    for stamp in (95, 195):
        pairs.add_right(stamp, stamp)
    assert pairs.add_left(200, 200) == [(200, 195)]
    assert pairs.add_left(300, 300) == []  # that of 295 is late
    assert pairs.add_right(295, 295) == [(300, 295)]
    assert pairs.add_right(330, 330) == []
    assert pairs.add_left(400, 400) == []  # the camera may be as fast again: another could still come at 365 or 400
    assert pairs.add_right(395, 395) == [(400, 395)]


def test_a_slower_right_camera_gives_its_picture_twice() -> None:
    assert paired([0, 30, 60, 90], [1, 61], 30) == [(0, 1), (30, 1), (60, 61), (90, 61)]


def test_a_recording_that_begins_again_begins_anew() -> None:
    pairs: PicturePairs[int] = PicturePairs(5)
    pairs.add_left(100, 100)
    pairs.add_right(90, 90)
    assert pairs.add_right(0, 0) == []
    assert pairs.add_left(0, 0) == [(0, 0)]
    assert pairs.unpaired == 0


def test_a_camera_that_has_stopped_fills_no_memory() -> None:
    pairs: PicturePairs[int] = PicturePairs(5, is_live=True)
    for stamp in range(1000):
        assert pairs.add_left(stamp, stamp) == []
    assert pairs.unpaired >= 980
    assert len(pairs.add_right(1000, 1000)) == 5  # those near enough that still wait


def test_what_has_no_partner_in_a_recording_does_not_wait_for_its_end() -> None:
    pairs: PicturePairs[int] = PicturePairs(5, in_order=True)
    for stamp in range(100):
        pairs.add_left(stamp, stamp)
        assert stamp - 6 <= pairs.unpaired <= stamp


def test_of_a_recording_none_is_left_out() -> None:
    """However much slower the right camera is."""
    left = list(range(0, 3000, 10))
    assert len(paired(left, [0, 1000, 2000, 3000], 500)) == len(left)


def test_pictures_lie_side_by_side_and_the_right_one_gets_the_size_of_the_left() -> None:
    rng = np.random.default_rng(0)
    left, right = (rng.integers(0, 256, size, np.uint8) for size in ((4, 6, 3), (2, 3, 3)))
    frame = side_by_side(left, right)
    np.testing.assert_array_equal(frame[:, :6], left)
    np.testing.assert_array_equal(frame[:, 6:], right.repeat(2, axis=0).repeat(2, axis=1))
    np.testing.assert_array_equal(side_by_side(left, left)[:, 6:], left)
