# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Stretches in which nothing is seen: when they begin, and that anything seen ends them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from cacheinf_ros.pipeline.quiet_stretch import QuietStretch


@given(st.lists(st.booleans(), max_size=200))
def test_it_is_quiet_only_after_some_frames_in_a_row_that_show_nothing(are_empty: list[bool]) -> None:
    quiet, in_a_row = QuietStretch(), 0
    for is_empty in are_empty:
        quiet.computed(is_empty=is_empty)
        in_a_row = in_a_row + 1 if is_empty else 0
        assert not quiet.is_on or in_a_row >= 4
        assert quiet.is_on or in_a_row < 64


def frames_until_quiet(quiet: QuietStretch) -> int:
    """Count the frames that show nothing until it is quiet."""
    frames = 0
    while not quiet.is_on:
        quiet.computed(is_empty=True)
        frames += 1
    return frames


def test_after_short_stretches_it_waits_longer_and_after_a_long_one_no_more() -> None:
    quiet = QuietStretch()
    waited = []
    for _ in range(6):
        waited.append(frames_until_quiet(quiet))
        quiet.computed(is_empty=False)
    assert waited == [4, 8, 16, 32, 64, 64]
    frames_until_quiet(quiet)
    for _ in range(8):
        quiet.computed(is_empty=True)
    quiet.computed(is_empty=False)
    assert frames_until_quiet(quiet) == 4
