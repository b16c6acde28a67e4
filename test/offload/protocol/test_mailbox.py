# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Contents come out of a mailbox whole in any order of packets, and it never holds more than it may."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cacheinf_ros.errors import LinkError
from cacheinf_ros.offload.protocol.mailbox import Mailbox
from cacheinf_ros.offload.protocol.packets import Assembly, Kind, Packet, cut

ROWS = {"session": "robot", "epoch": 1, "kind": Kind.ROWS}


def packets(content: bytes, **address: int) -> list[Packet]:
    return list(cut(content, largest=10, **ROWS, **address))


@given(content=st.binary(max_size=100), rng=st.randoms())
def test_a_content_is_whole_in_any_order(content: bytes, rng: Random) -> None:
    mailbox = Mailbox(100, tensors=2)
    sent = packets(content, frame=1, tensor=1)
    rng.shuffle(sent)
    assert all(mailbox.deliver(packet) for packet in sent)
    assert not any(mailbox.deliver(packet) for packet in sent), "none twice"
    assert mailbox.take(1, Kind.ROWS, 1, deadline=0) == content


def test_what_is_incomplete_or_closed_is_an_error() -> None:
    mailbox = Mailbox(100, tensors=1)
    first, _ = packets(bytes(20))
    assert Assembly(2).content is None and mailbox.deliver(first) and first.bytes_on_wire > len(first.data)
    with pytest.raises(LinkError, match="rows of frame 0 did not come in time"):
        mailbox.take(0, Kind.ROWS, 0, deadline=0)
    mailbox.close("the server has gone")
    with pytest.raises(LinkError, match="the server has gone"):
        mailbox.take(0, Kind.ROWS, 0, deadline=float("inf"))


def test_it_takes_no_more_than_it_may_until_room_is_made() -> None:
    mailbox = Mailbox(25, tensors=1)
    assert all(mailbox.deliver(packet) for packet in packets(bytes(20), frame=1))
    later, *_ = packets(bytes(20), frame=2)
    assert not mailbox.deliver(later), "it is full"
    mailbox.forget_before(2)
    assert mailbox.deliver(later) and not mailbox.deliver(packets(b"", frame=1)[0]), "what is over is not taken"
    assert not mailbox.deliver(packets(b"", frame=2, tensor=1)[0]), "there is no such tensor"


def test_empty_packets_do_not_wait_without_end() -> None:
    mailbox = Mailbox(10**6, tensors=3)
    (whole,) = cut(b"", **ROWS, frame=1)
    empty = (replace(whole, tensor=tensor, part=part, parts=1000) for tensor in range(3) for part in range(999))
    taken = sum(mailbox.deliver(packet) for packet in empty)
    assert taken < 500
    mailbox.forget_before(2)
    assert mailbox.deliver(packets(b"", frame=2)[0])
