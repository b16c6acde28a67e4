# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Frames that never came are seen in the stamps of those that did."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cacheinf_ros.pipeline.stamp_gaps import StampGaps

MS = 1_000_000


@given(
    st.lists(st.booleans(), min_size=40, max_size=80).filter(lambda kept: sum(kept[20:]) > 10),
    st.sampled_from([10, 33, 100]),
    st.floats(0.0, 0.05),
)
def test_what_is_missing_of_a_steady_camera_is_counted(kept: list[bool], period_ms: int, jitter: float) -> None:
    kept = [True] * 12 + kept[::1] + [True]  # a steady beginning
    kept = [keep or i % 3 for i, keep in enumerate(kept)]  # a third is lost at most
    noise = random.Random(0)
    gaps = StampGaps()
    counted = 0
    for i, keep in enumerate(kept):
        if keep:
            counted += gaps.add(round((i + 1 + noise.uniform(-jitter, jitter)) * period_ms * MS))
    assert counted == len(kept) - sum(map(bool, kept))


def test_a_pause_and_time_that_goes_back_are_no_loss() -> None:
    gaps = StampGaps()
    stamps = [*range(0, 2000, 100), *range(60_000, 62_000, 100), *range(0, 2000, 100)]
    assert sum(gaps.add(stamp * MS) for stamp in stamps) == 0


@pytest.mark.parametrize("seed", range(5))
def test_nothing_is_said_of_a_camera_without_a_rate(seed: int) -> None:
    draw, gaps, stamp, missing = random.Random(seed), StampGaps(), 0, 0
    for _ in range(300):
        stamp += round(draw.uniform(0.2, 5.0) * 100 * MS)
        missing += gaps.add(stamp)
    assert missing < 10
