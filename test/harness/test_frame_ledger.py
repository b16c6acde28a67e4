# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""No frame that a camera sent is left out of the ledger, and none is counted twice."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from cacheinf_ros.harness.frame_ledger import SILENCE_S, Fate, FrameLedger

PATIENCE_S = 10.0
EVENTS = st.lists(
    st.tuples(st.sampled_from(["send", "answer", "excuse", "postpone"]), st.integers(0, 5), st.booleans())
)


@given(EVENTS)
def test_every_frame_that_is_sent_has_one_fate(events: list[tuple[str, int, bool]]) -> None:
    ledger, sent, answers = FrameLedger(PATIENCE_S), dict[int, bool](), 0
    for at, (what, stamp, flag) in enumerate(events):
        if what == "send":
            ledger.send(stamp, at, must=flag)
            sent.setdefault(stamp, flag)
        elif what == "answer":
            answers += 1
            ledger.answer(stamp, at, Fate.RIGHT if flag else Fate.STATED)
        elif what == "excuse":
            ledger.excuse(at)
        else:
            ledger.postpone(at)
    ledger.settle(len(events) + PATIENCE_S + 1)
    fates = ledger.fates
    of_answers = sum(fates[fate] for fate in (Fate.AGAIN, Fate.TWICE, Fate.UNASKED))
    unanswered = sum(fates[fate] for fate in (Fate.EXCUSED, Fate.MISSING, Fate.UNOWED))
    assert ledger.sent == len(sent) == fates[Fate.RIGHT] + fates[Fate.STATED] + unanswered
    assert sum(fates.values()) == len(sent) + of_answers == answers + unanswered
    assert fates[Fate.EXCUSED] + fates[Fate.MISSING] <= sum(sent.values())
    assert fates[Fate.UNOWED] <= len(sent) - sum(sent.values())
    assert ledger.waiting == 0


def test_what_is_sent_twice_may_be_answered_twice_and_must_be_once() -> None:
    ledger = FrameLedger(PATIENCE_S)
    ledger.send(1, 0.0, must=True)
    ledger.send(1, 0.1, must=True)
    assert [ledger.answer(1, at, Fate.RIGHT) for at in (0.2, 0.3, 0.4)] == [Fate.RIGHT, Fate.AGAIN, Fate.TWICE]
    assert ledger.settle(20.0) == 0
    assert ledger.answer(1, 21.0, Fate.RIGHT) is Fate.UNASKED


def test_recovery_counts_from_the_fault_to_the_first_right_answer_of_a_later_frame() -> None:
    ledger = FrameLedger(PATIENCE_S)
    for stamp, sent, answered, fate in (
        (1, 0.0, 3.0, Fate.RIGHT),
        (2, 2.5, 3.5, Fate.STATED),
        (3, 3.0, 4.0, Fate.RIGHT),
    ):
        ledger.send(stamp, sent, must=True)
        ledger.answer(stamp, answered, fate)
    assert ledger.recovered(2.0) == (3.0, 4.0)
    assert ledger.recovered(3.5) is None


def test_a_process_that_is_killed_while_its_frames_wait_for_long_is_told() -> None:
    ledger = FrameLedger(PATIENCE_S, lambda: "robot.log")
    ledger.send(1, 0.0, must=True)
    ledger.postpone(2.0)  # it was paused until then
    ledger.excuse(2.0 + SILENCE_S)
    assert not +ledger.silent
    ledger.send(2, 3.0, must=True)
    ledger.send(3, 3.0, must=False)
    ledger.send(4, 3.0, must=True)
    ledger.answer(4, 3.1, Fate.RIGHT)
    ledger.excuse(3.1 + SILENCE_S)
    assert ledger.silent == {"robot.log": 1}


def test_only_what_a_paused_node_has_not_received_goes_with_its_camera() -> None:
    ledger = FrameLedger(PATIENCE_S)
    ledger.send(1, 0.0, must=True)
    ledger.postpone(2.0)  # the node was paused until then
    ledger.send(2, 2.5, must=True)
    ledger.excuse(3.0, sent_by_s=2.0)
    assert ledger.waiting == 1
    ledger.settle(2.5 + PATIENCE_S + 0.1)
    assert (ledger.fates[Fate.EXCUSED], ledger.fates[Fate.MISSING]) == (1, 1)
