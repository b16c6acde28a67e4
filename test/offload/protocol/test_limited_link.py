# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Tests of a link slowed down below its real rate."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cacheinf_ros.errors import ConfigError
from cacheinf_ros.offload.protocol.limited_link import LimitedLink, Trace, read_trace

STEPS = Trace(np.array([0.0, 1.0, 3.0]), np.array([8.0, 1.0, 16.0]))  # 1, 0.25 and 4 MB in all, over 1, 2 and 2 s


@pytest.mark.parametrize(
    ("start", "size", "end"),
    [(0, 1_000_000, 1.0), (0.5, 500_000, 1.0), (0.5, 625_000, 2.0), (0, 5_250_000, 5.0), (4.0, 3_000_000, 6.0),
     (10.0, 1_125_000, 12.0)],
)  # fmt: skip
def test_times_by_hand(start: float, size: int, end: float) -> None:
    assert STEPS.period == 5.0
    assert STEPS.sent_at(start, size) == pytest.approx(end)


@given(start=st.floats(0, 1e4), sizes=st.lists(st.integers(0, 10**7), max_size=5))
def test_one_after_another_is_as_fast_as_all_at_once(start: float, sizes: list[int]) -> None:
    end = start
    for size in sizes:
        end = STEPS.sent_at(end, size)
    assert end == pytest.approx(STEPS.sent_at(start, sum(sizes)), abs=1e-6)


def test_bandwidth_over_time() -> None:
    assert [STEPS.at(second) for second in (0, 0.9, 1, 2.9, 3, 4.9, 5, 6.5)] == [8, 8, 1, 1, 16, 16, 8, 1]


def test_a_trace_below_home_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "link.csv").write_text("seconds,mbit_s\n0,8\n")
    assert read_trace("~/link.csv").mbit_s.tolist() == [8.0]


def test_messages_arrive_in_order_and_not_before_they_can() -> None:
    arrived: list[tuple[int, float]] = []
    link, started = LimitedLink(Trace.constant(8.0)), time.monotonic()
    for number in range(5):
        link.send(20_000, lambda number=number: arrived.append((number, time.monotonic() - started)))  # type: ignore[misc]
    deadline = started + 20
    while len(arrived) < 5:
        assert time.monotonic() < deadline
        time.sleep(0.005)
    assert [number for number, _ in arrived] == [0, 1, 2, 3, 4]
    assert all(second >= 0.02 * (number + 1) - 1e-3 for number, second in arrived)


def test_a_link_ends_with_what_waits_there_and_takes_no_more_than_it_can_keep() -> None:
    arrived: list[int] = []
    link = LimitedLink(Trace.constant(1000.0))
    for size in (1000, 2**27, 2000):
        link.send(size, lambda size=size: arrived.append(size))  # type: ignore[misc]
    link.close()
    link._thread.join(20.0)
    assert not link._thread.is_alive()
    assert arrived == [1000, 2000]


@pytest.mark.parametrize(
    ("content", "complaint"),
    [("", "empty"), ("a,b\n1,2\n", "columns"), ("seconds,mbit_s\n1,5\n", "begin at 0"),
     ("seconds,mbit_s\n0,0\n", "at least"), ("seconds,mbit_s\n0,x\n", "neither")],
)  # fmt: skip
def test_what_is_no_trace(content: str, complaint: str, tmp_path: Path) -> None:
    path = tmp_path / "trace.csv"
    path.write_text(content)
    with pytest.raises(ConfigError, match=complaint):
        read_trace(str(path))
    with pytest.raises(ConfigError, match="neither"):
        read_trace("no such file")
    with pytest.raises(ConfigError, match="at least"):
        read_trace("0")
