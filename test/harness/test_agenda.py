# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Actions that are due are done in order, and once."""

from __future__ import annotations

from functools import partial

from hypothesis import given
from hypothesis import strategies as st

from cacheinf_ros.harness.agenda import Agenda


@given(st.lists(st.integers(0, 5)), st.integers(-1, 6))
def test_what_is_due_is_done_in_order_and_once(times: list[int], now: int) -> None:
    agenda, done = Agenda(), list[tuple[int, int]]()
    for number, at in enumerate(times):
        agenda.at(at, partial(done.append, (at, number)))
    agenda.act(now)
    assert done == sorted((at, number) for number, at in enumerate(times) if at <= now)
    agenda.act(now)
    assert len(done) == sum(at <= now for at in times)
    assert bool(agenda) is any(at > now for at in times)


def test_what_adds_itself_again_is_done_until_it_is_not_due() -> None:
    agenda, done = Agenda(), list[int]()

    def act(at: int) -> None:
        done.append(at)
        agenda.at(at + 2, partial(act, at + 2))

    agenda.at(0, partial(act, 0))
    agenda.act(5)
    assert done == [0, 2, 4]
    assert agenda
