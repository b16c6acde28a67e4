# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""A robot that is best alone hardly asks the scheduler, and does not wait for a server without a whole picture."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from cacheinf_ros.engine import Partition
from cacheinf_ros.offload.planning import Asking, Choice

SHARED = Partition(robot_rows={})


def alone(lead: float) -> Choice:
    return Choice(partition=None, predicted_ms=10.0, local_share=1.0, is_settled=True, lead=lead)


def shared(predicted_ms: float, *, is_settled: bool) -> Choice:
    return Choice(
        partition=SHARED, predicted_ms=predicted_ms, local_share=0.0, alone_ms=10.0, is_settled=is_settled
    )  # fmt: skip


def asked(asking: Asking, choice: Choice, frames: int) -> list[int]:
    """Return the frames, out of so many, about which the scheduler is asked if it always chooses this."""
    found, since = [], 0
    for frame in range(frames):
        since += 1
        if not asking.skips():
            assert asking.frames == since
            assert asking.awaits(choice, 1) == (choice.partition is not None)
            found.append(frame)
            since = 0
    return found


def test_the_longer_alone_is_best_by_far_the_less_is_asked() -> None:
    found = asked(Asking(), alone(2.0), 1000)
    between = [later - earlier for earlier, later in pairwise(found)]
    assert between[:9] == [1] * 9
    assert between[9:18] == [2] * 9
    assert between[-5:] == [10] * 5
    assert between == sorted(between)


@given(st.sampled_from([alone(1.2), shared(5.0, is_settled=True)]))
def test_where_it_is_close_or_another_is_best_every_frame_is_asked_about(choice: Choice) -> None:
    asking = Asking()
    assert asked(asking, choice, 200) == list(range(200))
    asked(asking, alone(2.0), 500)
    while asking.skips():
        pass
    asking.awaits(choice, 1)
    assert asked(asking, choice, 50) == list(range(50))


def test_to_save_energy_a_frame_is_waited_for_although_alone_it_would_end_sooner() -> None:
    """Otherwise the robot would compute such frames itself and send them as well, three times of four."""
    asking = Asking()
    saving = replace(shared(11.5, is_settled=False), slower=0.2)
    assert all(asking.awaits(saving, 1) for _ in range(8))
    assert not asking.awaits(replace(saving, predicted_ms=12.5), 1)


def test_what_is_predicted_later_than_alone_is_not_waited_for_but_every_fourth_time() -> None:
    asking, late = Asking(), shared(30.0, is_settled=False)
    assert [asking.awaits(late, 1) for _ in range(9)] == [False, False, False, True] * 2 + [False]
    assert asking.awaits(shared(8.0, is_settled=False), 1)
    assert asking.awaits(shared(30.0, is_settled=True), 1)  # as usual: it is not the server that lacks something
    assert [asking.awaits(late, 1) for _ in range(4)] == [False, False, False, True]


def test_each_session_and_each_rest_begins_anew() -> None:
    asking, late = Asking(), shared(30.0, is_settled=False)
    for epoch in range(5):
        assert not asking.awaits(late, epoch) and not asking.awaits(late, epoch)
    asking.awaits(alone(1.0), 4)
    assert [asking.awaits(late, 4) for _ in range(3)] == [False] * 3
