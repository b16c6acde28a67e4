# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""A number stays with its object, however it moves and in whatever order boxes come; newcomers get new numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from cacheinf_ros.engine import Box
from cacheinf_ros.pipeline.box_tracks import BoxTracks

FRAME_NS = 100_000_000
SIDE = 60.0
SIZE = (720, 1280)

slow = st.floats(-0.3 * SIDE, 0.3 * SIDE)  # pixels per frame: a box overlaps with itself in the frame before


def box(x: float, y: float = 100.0, class_id: int = 0) -> Box:
    return Box(x=x, y=y, width=SIDE, height=SIDE, class_id=class_id, name="", score=0.5)


def numbers(tracks: BoxTracks, boxes: Sequence[Box], frame: int, *, is_held: bool = False) -> list[int]:
    numbered = tracks.number(boxes, frame * FRAME_NS, SIZE, is_held=is_held)
    assert [replace(each, track=0) for each in numbered] == list(boxes)  # nothing else is changed
    return [each.track for each in numbered]


@given(velocities=st.lists(st.tuples(slow, slow), min_size=1, max_size=5), seed=st.integers(0, 2**32 - 1))
def test_numbers_stay_with_boxes_that_move(velocities: list[tuple[float, float]], seed: int) -> None:
    shuffle, tracks, first = np.random.default_rng(seed).permutation, BoxTracks(), {}
    for frame in range(8):
        order = [int(index) for index in shuffle(len(velocities))]
        moved = [box(1000.0 * i + frame * velocities[i][0], frame * velocities[i][1]) for i in order]
        found = dict(zip(order, numbers(tracks, moved, frame), strict=True))
        first = first or found
        assert found == first
    assert sorted(first.values()) == list(range(1, len(velocities) + 1))


@given(held=st.lists(st.booleans(), min_size=12, max_size=12), speed=slow)
def test_held_answers_keep_numbers_and_so_does_what_is_computed_after_them(held: list[bool], speed: float) -> None:
    """While an answer is held, the object moves no more than the picture shows."""
    tracks, place = BoxTracks(), 0.0
    for frame, is_held in enumerate([False, *held]):
        place += 0.0 if is_held else speed
        assert numbers(tracks, [box(place)], frame, is_held=is_held) == [1]


@given(speed=st.floats(0.05 * SIDE, 0.3 * SIDE), gap=st.integers(1, 5))
def test_an_object_that_is_missed_for_some_frames_is_known_where_it_should_be(speed: float, gap: int) -> None:
    tracks = BoxTracks()
    seen = [frame for frame in range(14) if not 8 <= frame < 8 + gap]
    assert {tuple(numbers(tracks, [box(frame * speed)] if frame in seen else [], frame)) for frame in range(14)} == {
        (1,),
        (),
    }


@given(speed=st.floats(0.1 * SIDE, 0.3 * SIDE))
def test_two_that_pass_each_other_keep_their_numbers(speed: float) -> None:
    tracks = BoxTracks()
    for frame in range(-10, 11):
        pair = [box(frame * speed), box(-frame * speed, 100.0 + 0.2 * SIDE)]
        assert numbers(tracks, pair, frame + 10) == [1, 2]


@given(known=st.integers(0, 4), steps=st.lists(st.booleans(), min_size=1, max_size=10))
def test_a_newcomer_gets_a_number_that_nobody_had(known: int, steps: list[bool]) -> None:
    """Where an object has long been gone (False), the next object in its place gets another number."""
    tracks, frame = BoxTracks(), 0
    given_so_far = set(numbers(tracks, [box(1000.0 * i) for i in range(known)], frame))
    for is_elsewhere in steps:
        for _ in range(0 if is_elsewhere else 20):
            frame += 1
            numbers(tracks, [], frame)
        frame += 1
        new = numbers(tracks, [box(1e5 * frame)], frame)
        assert given_so_far.isdisjoint(new)
        given_so_far.update(new)


def test_a_class_may_flicker_where_the_box_stays_but_two_classes_in_one_place_are_two_objects() -> None:
    tracks = BoxTracks()
    assert numbers(tracks, [box(0.0, class_id=1)], 0) == [1]
    assert numbers(tracks, [box(1.0, class_id=2)], 1) == [1]
    assert numbers(tracks, [box(0.0, class_id=1), box(2.0, class_id=2)], 2) == [2, 1]
    assert numbers(tracks, [box(2.0, class_id=2), box(0.0, class_id=1)], 3) == [1, 2]


def test_stamps_that_go_backwards_and_being_told_to_forget_begin_anew() -> None:
    tracks = BoxTracks()
    assert numbers(tracks, [box(0.0)], 5) == [1]
    assert numbers(tracks, [box(0.0)], 5) == [1]
    assert numbers(tracks, [box(0.0)], 4) == [2]
    tracks.forget()
    assert numbers(tracks, [box(0.0)], 5) == [3]


def test_where_stamps_stand_still_objects_are_gone_after_some_frames() -> None:
    """Some drivers leave the stamp at 0: all objects that were ever seen were once remembered."""
    tracks = BoxTracks()
    for frame in range(130):
        assert [each.track for each in tracks.number([box(1000.0 * frame)], 0, SIZE, is_held=False)] == [frame + 1]
    assert [each.track for each in tracks.number([box(1000.0), box(129_000.0)], 0, SIZE, is_held=False)] == [131, 130]


def test_empty_boxes_are_numbered() -> None:
    tracks, point = BoxTracks(), replace(box(0.0), width=0.0, height=0.0)
    assert numbers(tracks, [point, point], 0) == [1, 2]
    assert len(set(numbers(tracks, [point, box(0.0)], 1))) == 2


def test_in_pictures_of_another_size_all_objects_are_new() -> None:
    tracks = BoxTracks()
    assert numbers(tracks, [box(100.0)], 0) == [1]
    assert numbers(tracks, [box(100.0)], 1) == [1]
    larger = tracks.number([box(100.0)], 2 * FRAME_NS, (2 * SIZE[0], 2 * SIZE[1]), is_held=False)
    assert [each.track for each in larger] == [2]
