# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Frames that never came are seen in the stamps of those that did."""

from __future__ import annotations

import random
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cacheinf_ros.pipeline.stamp_gaps import StampGaps

MS = 1_000_000


def missing(stamps_ms: Iterable[float]) -> int:
    gaps = StampGaps()
    return sum(gaps.add(round(stamp * MS)) for stamp in stamps_ms)


@given(
    st.sets(st.integers(2, 30)),
    st.integers(1, 3),
    st.sampled_from([10, 33, 100]),
    st.floats(0.0, 0.05),
    st.integers(0, 99),
)
def test_what_is_missing_of_a_steady_camera_is_counted(
    places: set[int], length: int, period_ms: int, jitter: float, seed: int
) -> None:
    """Gaps of a few frames, with nine frames between two of them at least."""
    lost = {10 * place + i for place in places for i in range(length)}
    noise = random.Random(seed)
    kept = [i for i in range(1, 330) if i not in lost]
    assert missing((i + noise.uniform(-jitter, jitter)) * period_ms for i in kept) == len(lost)


@pytest.mark.parametrize("slower", [2, 3, 4])
def test_a_camera_that_slows_down_loses_nothing(slower: int) -> None:
    """Automatic exposure: from 30 Hz to 15, 10 or 7.5 Hz, and back."""
    periods = [33] * 50 + [33 * slower] * 50 + [33] * 50
    assert missing(sum(periods[:i]) for i in range(1, len(periods))) == 0


def test_a_pause_and_time_that_goes_back_are_no_loss() -> None:
    assert missing([*range(0, 2000, 33), *range(5000, 7000, 33), *range(60_000, 62_000, 33), *range(0, 2000, 33)]) == 0


def test_two_periods_in_turn_are_no_loss() -> None:
    stamps = [0.0]
    for i in range(400):
        stamps.append(stamps[-1] + (33 if i % 2 else 66))
    assert missing(stamps) == 0


@pytest.mark.parametrize("seed", range(5))
def test_nothing_is_said_of_a_camera_without_a_rate(seed: int) -> None:
    draw, stamps = random.Random(seed), [0.0]
    for _ in range(300):
        stamps.append(stamps[-1] + draw.uniform(20.0, 500.0))
    assert missing(stamps) < 3
