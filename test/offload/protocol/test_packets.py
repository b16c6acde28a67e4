# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Contents are cut into few packets, none of which is large, and put together again."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cacheinf_ros.offload.protocol.packets import LARGEST, USUAL, Assembly, Kind, cut

EDGES = [0, 1, USUAL, USUAL + 1, 4 * USUAL, 4 * USUAL + 1, 4 * LARGEST, 4 * LARGEST + 1]


@settings(max_examples=40)
@given(
    size=st.sampled_from(EDGES) | st.integers(0, 6 * LARGEST),
    seed=st.integers(0, 2**32 - 1),
    order=st.randoms(use_true_random=False),
)
def test_contents_come_back_from_few_packets(size: int, seed: int, order: object) -> None:
    content = np.random.default_rng(seed).bytes(size)
    packets = [*cut(content, session="robot", epoch=1, kind=Kind.ROWS)]
    largest = max(len(packet.data) for packet in packets)
    assert largest <= LARGEST and (size > 4 * USUAL or largest <= USUAL)
    assert len(packets) <= max(4, -(-size // LARGEST))
    order.shuffle(packets)  # type: ignore[attr-defined]
    assembly = None
    for packet in packets:
        assert packet.is_sound
        assembly = Assembly.of(assembly, packet)
    assert assembly is not None and assembly.content == content


@pytest.mark.parametrize("kind", [Kind.HELLO, Kind.SEARCH, Kind.SCHEDULES])
def test_what_must_be_one_packet_is_one(kind: Kind) -> None:
    assert [len(packet.data) for packet in cut(bytes(LARGEST), session="r", epoch=1, kind=kind)] == [LARGEST]


def test_cuts_by_hand() -> None:
    """250 kB take two packets of 100 kB and one of 50; 2 MB take five of 400 kB."""
    sizes = [[len(p.data) for p in cut(bytes(n), session="r", epoch=1, kind=Kind.ROWS)] for n in (250_000, 2_000_000)]
    assert sizes == [[100_000, 100_000, 50_000], [400_000] * 5]
