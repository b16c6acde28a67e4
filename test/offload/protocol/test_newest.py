# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Of several contents the newest complete one is taken, once, and no stranger makes later ones late."""

from __future__ import annotations

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from cacheinf_ros.offload.protocol.newest import Arrived, NewestContent
from cacheinf_ros.offload.protocol.packets import Kind, Packet, cut


def packets(content: bytes, frame: int, kind: Kind = Kind.ROWS, tensor: int = 0) -> list[Packet]:
    return list(cut(content, largest=10, session="robot", epoch=1, kind=kind, frame=frame, tensor=tensor))


@given(contents=st.lists(st.binary(min_size=1, max_size=40), min_size=1, max_size=5), rng=st.randoms())
def test_the_newest_is_taken_once(contents: list[bytes], rng: Random) -> None:
    newest = NewestContent(Kind.ROWS, most_bytes=100)
    sent = [packet for frame, content in enumerate(contents, 1) for packet in packets(content, frame)]
    rng.shuffle(sent)
    for packet in sent:
        newest.deliver(packet)
    assert newest.take() == Arrived(frame=len(contents), content=contents[-1])
    for packet in sent:
        newest.deliver(packet)
    assert newest.take() is None


def test_what_is_of_no_use_changes_nothing() -> None:
    newest = NewestContent(Kind.ROWS, most_bytes=20)
    first, second = packets(bytes(20), frame=5)
    newest.deliver(first)
    for useless in (
        *packets(b"another kind", frame=6, kind=Kind.FRAME), *packets(b"a row of a tensor", frame=6, tensor=1),
        *packets(b"old", frame=4), *packets(b"far ahead", frame=5000),
    ):  # fmt: skip
        newest.deliver(useless)
    newest.deliver(second)
    assert newest.take() == Arrived(frame=5, content=bytes(20))
    for packet in packets(bytes(21), frame=6):
        newest.deliver(packet)
    assert newest.take() is None and newest.too_large == 6
