# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Nothing that a camera sent is left out of the account, and nothing is counted twice."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from cacheinf_ros.harness.frame_ledger import Fate, FrameLedger

PATIENCE_S = 10.0
EVENTS = st.lists(
    st.tuples(st.sampled_from(["send", "answer", "excuse", "postpone"]), st.integers(0, 5), st.booleans())
)


@given(EVENTS)
def test_every_frame_that_must_be_answered_is_answered_excused_or_missing(events: list[tuple[str, int, bool]]) -> None:
    ledger, owed, answers = FrameLedger(PATIENCE_S), set(), 0
    for at, (what, stamp, must) in enumerate(events):
        if what == "send":
            if stamp not in owed:
                ledger.send(stamp, at, must=True)
                owed.add(stamp)
        elif what == "answer":
            answers += 1
            ledger.answer(stamp, at, Fate.RIGHT if must else Fate.STATED)
        elif what == "excuse":
            ledger.excuse()
        else:
            ledger.postpone(at)
    ledger.settle(len(events) + PATIENCE_S + 1)
    fates = ledger.fates
    given_up = fates[Fate.EXCUSED] + fates[Fate.MISSING]
    late = sum(fates[fate] for fate in (Fate.TWICE, Fate.UNASKED))
    assert sum(fates.values()) == answers + given_up
    # an excused frame may be answered all the same
    assert len(owed) - fates[Fate.EXCUSED] <= answers - late + fates[Fate.MISSING] <= len(owed)
    assert ledger.waiting == 0


def test_what_is_sent_twice_may_be_answered_twice_and_must_be_once() -> None:
    ledger = FrameLedger(PATIENCE_S)
    ledger.send(1, 0.0, must=True)
    ledger.send(1, 0.1, must=True)
    assert [ledger.answer(1, at, Fate.RIGHT) for at in (0.2, 0.3, 0.4)] == [Fate.RIGHT, Fate.RIGHT, Fate.TWICE]
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
    assert ledger.recovery_s(2.0) == 2.0
    assert ledger.recovery_s(3.5) is None
