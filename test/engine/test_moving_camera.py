# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The engine follows a camera: it computes exactly the image that its cache represents."""

from __future__ import annotations

from hypothesis import example, given, settings
from hypothesis import strategies as st
from networks.random_models import random_model, seeds
from oracle import assert_follows_the_camera

shifts = st.lists(st.tuples(st.integers(-9, 9), st.integers(-9, 9)), min_size=4, max_size=8)


@settings(max_examples=15)
@given(seed=seeds, moves=shifts)
@example(seed=898, moves=[(0, 0), (0, 0), (0, 0), (1, 0)])  # a dilated kernel of an even size
def test_random_networks_equal_dense_while_the_camera_moves(seed: int, moves: list[tuple[int, int]]) -> None:
    assert_follows_the_camera(random_model(seed).model(), moves, seed)
