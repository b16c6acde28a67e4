# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Images wait for their maps, the latest ready one wins, and a silent matcher is waited for only once."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from cacheinf_ros.cache_map import CacheMap, Motion
from cacheinf_ros.pipeline.map_chain import EMPTY, LATE, UNORDERED, MapUpdate
from cacheinf_ros.pipeline.pairing import WAITING_FRAMES, FramePairing, LatestQueue, Outcome

TIMEOUT = 100


def pairing(queue_size: int = 1) -> FramePairing[str]:
    return FramePairing(map_timeout_ns=TIMEOUT, queue_size=queue_size)


def link(stamp_ns: int, sequence: int = 1) -> MapUpdate:
    return MapUpdate(
        session="a",
        sequence=sequence,
        reference_sequence=0,
        stamp_ns=stamp_ns,
        reference_stamp_ns=0,
        cache_map=CacheMap.nothing((4, 4), 4),
    )


def test_a_frame_waits_for_its_map_until_the_timeout() -> None:
    pairs = pairing()
    pairs.add_frame("one", stamp_ns=10, now_ns=0)
    assert pairs.take(TIMEOUT - 1) is None
    assert pairs.deadline_ns() == TIMEOUT
    taken = pairs.take(TIMEOUT)
    assert taken is not None
    assert (taken.frame, taken.timed_out, taken.path.gap) == ("one", True, LATE)


def test_a_map_may_come_before_or_after_its_frame() -> None:
    pairs = pairing()
    pairs.add_map(link(10))
    pairs.add_frame("one", stamp_ns=10, now_ns=0)
    first = pairs.take(0)
    pairs.add_frame("two", stamp_ns=20, now_ns=0)
    pairs.add_map(link(20, sequence=2))
    second = pairs.take(0)
    assert first is not None
    assert second is not None
    assert (first.frame, second.frame) == ("one", "two")
    assert second.path.links


def test_the_latest_frame_that_has_its_map_wins() -> None:
    pairs = pairing()
    for i, name in enumerate("abc"):
        pairs.add_frame(name, stamp_ns=i, now_ns=0)
    pairs.add_map(link(0, 1))
    pairs.add_map(link(1, 2))
    taken = pairs.take(0)
    assert taken is not None
    assert (taken.frame, pairs.dropped) == ("b", 1)
    assert pairs.take(0) is None


def test_a_longer_queue_runs_every_frame_in_order() -> None:
    pairs = pairing(queue_size=10)
    for i, name in enumerate("abc"):
        pairs.add_frame(name, stamp_ns=i, now_ns=0)
    pairs.add_map(link(2, 1))
    taken = [pairs.take(0) for _ in range(3)]
    assert [paired.frame for paired in taken if paired] == ["a", "b", "c"]
    assert pairs.dropped == 0


def test_a_silent_matcher_is_waited_for_once() -> None:
    pairs = pairing()
    pairs.add_frame("one", stamp_ns=10, now_ns=0)
    assert pairs.take(TIMEOUT) is not None
    pairs.add_frame("two", stamp_ns=20, now_ns=TIMEOUT)
    assert pairs.take(TIMEOUT) is not None
    pairs.add_map(link(20))
    pairs.add_frame("three", stamp_ns=30, now_ns=TIMEOUT)
    assert pairs.take(TIMEOUT) is None


@given(period=st.integers(1, TIMEOUT), queue_size=st.integers(1, 4))
def test_a_dead_matcher_stops_no_camera_however_fast(period: int, queue_size: int) -> None:
    """Where more frames come within the timeout than may wait, each was once dropped before it had waited so long."""
    pairs, taken = pairing(queue_size), []
    for frame in range(4 * TIMEOUT // period):
        pairs.add_frame(str(frame), stamp_ns=frame, now_ns=frame * period)
        while paired := pairs.take(frame * period):
            taken.append((paired.stamp_ns, paired.timed_out, paired.path.gap))
    first, *others = taken
    assert first[0] * period <= 2 * TIMEOUT
    assert others[-1] == (frame, True, LATE)
    assert len({stamp for stamp, _, _ in taken}) >= 2 * TIMEOUT // period


def test_maps_that_come_late_but_in_time_are_waited_for() -> None:
    """A matcher takes 6 frame periods, and its frames waited for one: for a while, no waiting frame has its map."""
    pairs, taken, period = pairing(), [], 6
    for frame in range(100):
        pairs.add_frame(str(frame), stamp_ns=frame, now_ns=frame * period)
        if frame % 6 == 1 and frame > 7:
            pairs.add_map(link(frame - 7, frame))
        if paired := pairs.take(frame * period):
            taken.append((paired.frame, paired.timed_out))
    assert taken == [(str(frame), False) for frame in range(6, 91, 6)]


def test_when_time_goes_backwards_nothing_is_reused() -> None:
    pairs = pairing()
    pairs.add_map(link(10, 1))
    pairs.add_frame("one", stamp_ns=10, now_ns=0)
    first = pairs.take(0)
    assert first is not None
    pairs.chain.mark_cached(first.stamp_ns, first.path)
    pairs.add_frame("again", stamp_ns=10, now_ns=0)
    again = pairs.take(TIMEOUT)
    assert again is not None
    assert again.path.gap


def test_a_map_with_the_stamp_of_the_frame_that_is_computed_is_the_next_one_s() -> None:
    """Stamps repeat where the clock is slower than the camera; the second frame waited for a map that had come."""
    pairs = pairing()
    pairs.add_frame("one", stamp_ns=10, now_ns=0)
    pairs.add_map(link(10, 1))
    first = pairs.take(0)
    assert first is not None and not first.timed_out
    pairs.add_frame("two", stamp_ns=10, now_ns=1)
    pairs.add_map(replace(link(10, 2), reference_sequence=1, reference_stamp_ns=10))
    pairs.note(first, Outcome.CACHED)
    second = pairs.take(2)
    assert second is not None and not second.timed_out and not second.path.gap
    assert [each.sequence for each in second.path.links] == [2]


def test_what_is_left_at_the_end_is_dropped() -> None:
    pairs, queue = pairing(queue_size=2), LatestQueue[str](2)
    for i, name in enumerate("ab"):
        pairs.add_frame(name, stamp_ns=i, now_ns=0)
        queue.put(name)
    for inbox in (pairs, queue):
        inbox.drop_all()
        assert (inbox.take(TIMEOUT), inbox.waiting, inbox.dropped) == (None, 0, 2)


def gaps_of(stamps: list[int]) -> list[str]:
    """Return why each frame reuses nothing, where its map reuses everything from the frame before."""
    pairs, gaps = pairing(), []
    for sequence, stamp in enumerate(stamps, start=1):
        pairs.add_frame("frame", stamp_ns=stamp, now_ns=0)
        everything = CacheMap.of_blocks(np.ones((1, 1), np.bool_), (4, 4), 4, Motion.none())
        pairs.add_map(replace(link(stamp, sequence), reference_sequence=sequence - 1, cache_map=everything))
        paired = pairs.take(0)
        assert paired is not None
        gaps.append(paired.path.gap)
        pairs.note(paired, Outcome.CACHED)
    return gaps[1:]


def test_stamps_that_do_not_increase_are_told_from_a_bag_that_loops() -> None:
    """Where a camera driver stamps nothing, or a simulated clock stands still, nothing is ever reused."""
    assert gaps_of([10, 20, 30, 10, 20, 30, 10]) == ["", "", EMPTY, "", "", EMPTY]
    assert gaps_of([0, 0, 0, 0]) == [EMPTY, UNORDERED, UNORDERED]
    assert gaps_of([30, 20, 10, 20, 30]) == [EMPTY, UNORDERED, "", ""]


def starts_over(seconds: list[float]) -> list[bool]:
    """Return for each frame whether earlier frames say nothing about it."""
    pairs, found = pairing(), []
    for sequence, second in enumerate(seconds, start=1):
        stamp = int(second * 1e9)
        pairs.add_frame("frame", stamp_ns=stamp, now_ns=0)
        pairs.add_map(link(stamp, sequence))
        paired = pairs.take(0)
        assert paired is not None
        found.append(paired.starts_over)
    return found


def test_a_jump_back_starts_over() -> None:
    assert starts_over([10, 20, 10, 20, 500, 30, 40]) == [False, False, True, False, False, True, False]


def test_frames_that_are_late_or_doubled_do_not_start_over() -> None:
    """A clock at half the camera's rate repeats each stamp: once every burst began anew then, and nothing was held."""
    assert not any(starts_over([0, 0, 0, 0]))
    assert not any(starts_over([1, 1, 2, 2, 2, 3, 3]))
    assert not any(starts_over([1, 1.03, 1.06, 1.04, 1.1]))


def test_a_jump_back_of_which_the_first_frame_was_dropped_starts_over() -> None:
    pairs = pairing()
    pairs.add_frame("last", stamp_ns=30 * 10**9, now_ns=0)
    assert pairs.take(TIMEOUT) is not None
    for second in (10, 20):
        pairs.add_frame(str(second), stamp_ns=second * 10**9, now_ns=0)
    taken = pairs.take(TIMEOUT)
    assert taken is not None and (taken.frame, taken.starts_over) == ("20", True)


def test_a_map_that_cannot_be_folded_costs_no_frame() -> None:
    """Chaining the map's motion overflows. This once ended the thread that takes frames, and so the node's work."""
    pairs = pairing()
    huge = Motion(matrix=np.diag([1e300, 1e300, 1.0]))
    good = CacheMap.of_blocks(np.ones((1, 1), np.bool_), (4, 4), 4, Motion.none())
    for sequence in (1, 2, 3):
        update = MapUpdate(
            session="a",
            sequence=sequence,
            reference_sequence=sequence - 1,
            stamp_ns=10 * sequence,
            reference_stamp_ns=10 * sequence - 10,
            cache_map=good if sequence == 1 else replace(good, motion=huge),
        )
        pairs.add_map(update)
    pairs.chain.mark_cached(10, pairs.chain.path(10))
    pairs.add_frame("three", stamp_ns=30, now_ns=0)
    taken = pairs.take(0)
    assert taken is not None
    assert taken.frame == "three"
    folded = taken.path.folded((4, 4)).cache_map
    assert folded is None or folded.is_empty


def test_frames_that_wait_are_bounded() -> None:
    pairs = pairing()
    for i in range(WAITING_FRAMES + 3):
        pairs.add_frame(str(i), stamp_ns=i, now_ns=0)
    assert pairs.dropped == 3


@given(
    events=st.lists(
        st.one_of(
            st.tuples(st.just("frame"), st.integers(1, 3)),
            st.tuples(st.just("map"), st.integers(1, 3)),
            st.tuples(st.just("take"), st.integers(0, 2 * TIMEOUT)),
        ),
        max_size=60,
    ),
    queue_size=st.integers(1, 4),
)
def test_every_frame_is_taken_or_dropped_once_and_in_order(events: list[tuple[str, int]], queue_size: int) -> None:
    pairs, now, frame_stamp, map_stamp, taken, sent = pairing(queue_size), 0, 0, 0, [], 0
    for sequence, (event, amount) in enumerate(events, start=1):
        if event == "frame":
            frame_stamp += amount
            pairs.add_frame(str(frame_stamp), frame_stamp, now)
            sent += 1
        elif event == "map":
            map_stamp += amount
            pairs.add_map(link(map_stamp, sequence))
        else:
            now += amount
            if paired := pairs.take(now):
                taken.append(paired.stamp_ns)
                pairs.chain.mark_cached(paired.stamp_ns, paired.path)
    while paired := pairs.take(now + 10 * TIMEOUT):
        taken.append(paired.stamp_ns)
    assert taken == sorted(set(taken))
    assert len(taken) + pairs.dropped == sent


def test_latest_queue_drops_the_oldest() -> None:
    queue: LatestQueue[int] = LatestQueue(2)
    for i in range(4):
        queue.put(i)
    assert (queue.take(0), queue.take(0), queue.take(0), queue.dropped) == (2, 3, None, 2)
