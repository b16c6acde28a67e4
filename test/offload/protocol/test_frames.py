# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Tests of loss, lateness and a dead server with plain function calls."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from cacheinf_ros.offload import FrameSession, OffloadConfig, Ticket

MS = 1_000_000
S = 1000 * MS
DEADLINE = 200 * MS


def session() -> FrameSession:
    return FrameSession(OffloadConfig(server_deadline_ms=200.0, probe_s=0.5, probe_max_s=2.0))


def granted(ticket: Ticket | None) -> Ticket:
    assert ticket is not None
    return ticket


def test_a_timely_answer_is_accepted_once() -> None:
    s = session()
    ticket = granted(s.request(0))
    assert ticket.awaited
    assert s.receive(ticket.sequence, "", 100 * MS) is ticket
    assert s.receive(ticket.sequence, "", 101 * MS) is None


def test_a_late_answer_is_ignored_and_the_server_is_down() -> None:
    s = session()
    ticket = granted(s.request(0))
    assert s.receive(ticket.sequence, "", DEADLINE) is None
    assert "200 ms" in s.complaint
    assert s.request(DEADLINE + 1) is None


def test_a_request_may_be_given_more_time() -> None:
    s = session()
    ticket = granted(s.request(0, more_ms=1000.0))
    assert ticket.deadline_ns == 6 * DEADLINE
    assert s.receive(ticket.sequence, "", 6 * DEADLINE - 1) is ticket
    s.request(2 * S, more_ms=100.0)
    s.expire(2 * S + 300 * MS)
    assert "no answer within 300 ms" in s.complaint


def test_a_probe_is_not_waited_for_and_its_answer_brings_the_server_back() -> None:
    s = session()
    s.request(0)
    s.expire(DEADLINE)
    probe = granted(s.request(DEADLINE + S))
    assert not probe.awaited
    assert s.receive(probe.sequence, "", DEADLINE + S + MS) is probe
    assert granted(s.request(DEADLINE + S + 2 * MS)).awaited


def test_probes_of_a_dead_server_become_rarer_up_to_the_limit() -> None:
    s = session()
    sent = [now for now in range(0, 20 * S, 10 * MS) if s.request(now)]
    gaps = [b - a for a, b in pairwise(sent)]
    assert gaps[:3] == [500 * MS + DEADLINE, S + DEADLINE, 2 * S + DEADLINE]
    assert set(gaps[3:]) == {2 * S + DEADLINE}


def test_a_refusal_counts_as_down_and_says_why() -> None:
    s = session()
    ticket = granted(s.request(0))
    assert s.receive(ticket.sequence, "the server runs vgg19", MS) is None
    assert s.complaint == "the server runs vgg19"


def test_answers_to_other_requests_are_ignored() -> None:
    s = session()
    ticket = granted(s.request(0))
    assert s.receive(ticket.sequence + 1, "", MS) is None
    assert s.is_up


@given(st.lists(st.tuples(st.integers(0, 3 * S), st.sampled_from(["request", "answer", "stale"])), max_size=60))
def test_at_most_one_request_is_open_and_each_is_answered_at_most_once(steps: list[tuple[int, str]]) -> None:
    s, now, sent, answered = session(), 0, [], []
    for wait, action in steps:
        now += wait
        if action == "request" and (ticket := s.request(now)):
            assert not sent or sent[-1].sequence < ticket.sequence
            assert not sent or sent[-1].sequence in answered or now >= sent[-1].deadline_ns
            sent.append(ticket)
        elif sent and (t := s.receive(sent[0 if action == "stale" else -1].sequence, "", now)):
            assert t.sequence not in answered
            assert now < t.deadline_ns
            answered.append(t.sequence)


def test_another_server_is_trusted_again() -> None:
    s = session()
    ticket = granted(s.request(0))
    s.expire(DEADLINE)
    assert not s.is_up
    s.start_anew()
    assert s.is_up and granted(s.request(DEADLINE)).awaited
    assert s.receive(ticket.sequence, "", DEADLINE + MS) is None
