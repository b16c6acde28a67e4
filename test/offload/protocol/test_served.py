# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""A server's report of a frame is read as it was written, and is measured in CPU time."""

from __future__ import annotations

import math
import time
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from networks.shared_models import mixed_model
from sessions import both, until

from cacheinf_ros.engine import PartitionWorker, Side
from cacheinf_ros.offload.protocol.packets import Kind, Packet
from cacheinf_ros.offload.protocol.transfer import Served

_AWAY_S = 0.1
TIMES = st.floats(min_value=0, allow_nan=False, allow_infinity=False)


@given(TIMES, TIMES, TIMES, st.integers(0, 2**32 - 1))
def test_what_is_written_is_read(took_ms: float, waited_ms: float, busy_ms: float, last_bytes: int) -> None:
    served = Served(took_ms=took_ms, waited_ms=waited_ms, busy_ms=busy_ms, last_bytes=last_bytes)
    assert Served.decode(served.encode()) == served


@given(st.binary(max_size=64))
def test_what_is_damaged_is_not_read(content: bytes) -> None:
    served = Served.decode(content)
    assert served is None or all(0 <= each < math.inf for each in (served.took_ms, served.waited_ms, served.busy_ms))


def test_times_that_are_none_are_not_read() -> None:
    for nothing in (math.nan, math.inf, -1.0):
        assert Served.decode(Served(took_ms=1.0, waited_ms=0.0, busy_ms=nothing, last_bytes=0).encode()) is None


def test_what_others_compute_meanwhile_is_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fleet that mistook a crowded start for the frames' own work would send robots away."""
    heard: list[Served | None] = []
    compute_part = PartitionWorker.compute_part

    def interrupted(self: PartitionWorker, *words: Any) -> None:
        time.sleep(_AWAY_S)  # another process has the core
        compute_part(self, *words)

    monkeypatch.setattr(PartitionWorker, "compute_part", interrupted)
    with both(mixed_model()) as sessions:
        take = sessions.robot.receive

        def listen(packet: Packet) -> None:
            if packet.kind == Kind.DONE:
                heard.append(Served.decode(packet.data))
            take(packet)

        monkeypatch.setattr(sessions.robot, "receive", listen)
        sessions.connect()
        assert sessions.engine.shared is not None
        everything = sessions.engine.shared.space.everything_at(Side.SERVER)
        sessions.engine.run(np.zeros((90, 80, 3), np.uint8), None, sessions.robot.frame(lambda _: everything))
        until(lambda: bool(heard))
    (served,) = heard
    assert served is not None and 0 < served.busy_ms <= served.took_ms - 1e3 * _AWAY_S
