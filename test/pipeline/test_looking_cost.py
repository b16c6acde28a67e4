# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Looking at pictures pays where it saves more time than it takes, and is not judged by few frames."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from cacheinf_ros.pipeline.looking_cost import LookingCost


@given(st.lists(st.booleans(), min_size=24, max_size=100), st.integers(1, 100), st.integers(1, 100))
def test_it_pays_where_more_is_saved_than_it_takes(held: list[bool], look_ms: int, frame_ms: int) -> None:
    looks = LookingCost()
    looks.computed(frame_ms)
    for frame, stands in enumerate(held):
        assert looks.pays or frame >= 24
        looks.looked(look_ms, stands=stands)
    assert looks.pays == (sum(held) * frame_ms >= len(held) * look_ms)
    looks.forget()
    assert looks.pays
