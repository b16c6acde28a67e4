# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Faults affect packets on their way to one receiver, and send none of them to another."""

from __future__ import annotations

import zlib
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cacheinf_ros.offload.protocol.link_faults import KINDS, Faults
from cacheinf_ros.offload.protocol.packets import Kind, Packet, cut

HELD = {"reordered": 1, "late": 10}


def packet(session: str, epoch: int) -> Packet:
    (only,) = cut(b"content", session=session, epoch=epoch, kind=Kind.HELLO)
    return only


@given(st.integers(0, 100), st.lists(st.sampled_from(["server", "a", "b"]), max_size=60))
def test_packets_reach_only_their_receiver(seed: int, receivers: list[str]) -> None:
    faults = Faults(seed, 0.5, tuple(kind for kind in KINDS if kind != "foreign"))
    for receiver in receivers:
        assert {arrived.session for arrived in faults(packet(receiver, 3), receiver)} <= {receiver}


@pytest.mark.parametrize("kind", HELD)
def test_a_held_packet_waits_for_others_to_the_same_receiver(kind: str) -> None:
    faults = Faults(0, 1.0, (kind,))
    assert faults(packet("a", 0), "a") == []
    faults(packet("b", 0), "b")
    came = [[each.epoch for each in faults(packet("a", number), "a")] for number in range(1, HELD[kind] + 2)]
    assert came == [[]] * (HELD[kind] - 1) + [[0], [1]]
    assert faults.counts == {kind: HELD[kind] + 3}


def test_what_is_held_for_a_receiver_goes_with_it() -> None:
    faults = Faults(0, 1.0, ("reordered",))
    faults(packet("a", 0), "a")
    faults.forget("a")
    assert faults(packet("a", 1), "a") == []


@given(st.integers(0, 2), st.sampled_from(KINDS))
def test_no_fault_makes_a_packet_that_no_message_can_hold(epoch: int, kind: str) -> None:
    faults = Faults(0, 1.0, (kind,))
    assert all(arrived.epoch >= 0 for _ in range(12) for arrived in faults(packet("a", epoch), "a"))


@given(st.integers(0, 100), st.sampled_from(sorted(set(Kind) - {Kind.HELLO, Kind.REFUSED})), st.binary(max_size=20))
def test_whatever_bit_is_flipped_is_noticed(seed: int, kind: Kind, content: bytes) -> None:
    (sent,) = cut(content, session="a", epoch=3, kind=kind, frame=7, tensor=2 * (kind == Kind.ROWS))
    faults = Faults(seed, 1.0, ("damaged",))
    assert sent.is_sound and not replace(sent, session="b").is_sound
    for _ in range(20):
        (arrived,) = faults(sent, "a")
        assert arrived != sent and not arrived.is_sound, arrived


def test_what_another_version_says_can_be_read() -> None:
    """Up to protocol 4 the checksum was of the data alone."""
    for kind in (Kind.HELLO, Kind.REFUSED):
        (sent,) = cut(b"I am another", session="a", epoch=3, kind=kind)
        assert sent.is_sound and sent.checksum == zlib.crc32(b"I am another")
        assert not replace(sent, data=b"I am someone").is_sound


def test_all_kinds_are_counted_from_the_start() -> None:
    assert Faults(0, 0.1, KINDS).counts.keys() == set(KINDS)
