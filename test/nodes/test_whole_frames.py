# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Stage times reported by a server are trusted only up to the time that has passed."""

from __future__ import annotations

import math

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

pytest.importorskip("rclpy", reason="needs ROS 2")

from cacheinf_ros.nodes.whole_frames import no_longer_than

durations = st.floats(0, 1e308, allow_nan=False)


@given(st.floats(0, 1e6), st.lists(durations, max_size=6))
@example(2.220446049250313e-16, [2.247116420825012e307])  # their ratio is denormal
def test_stages_take_no_longer_than_what_went_by(took_ms: float, stages_ms: list[float]) -> None:
    found = no_longer_than(took_ms, stages_ms)
    assert len(found) == len(stages_ms)
    assert math.fsum(found) <= took_ms * (1 + 1e-9)
    assert all(0 <= ours <= stated for ours, stated in zip(found, stages_ms, strict=True))
    if sum(stages_ms) <= took_ms:
        assert found == stages_ms


def test_shares_of_stages_stay() -> None:
    assert no_longer_than(10.0, [30.0, 10.0]) == [pytest.approx(7.5), pytest.approx(2.5)]
