# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The engine follows a camera: it computes exactly the image that its cache represents."""

from __future__ import annotations

import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from networks.random_models import random_model, seeds
from oracle import assert_follows_the_camera

from cacheinf_ros.graph import ModelCard, model_of

shifts = st.lists(st.tuples(st.integers(-9, 9), st.integers(-9, 9)), min_size=4, max_size=8)


@settings(max_examples=15)
@given(seed=seeds, moves=shifts)
@example(seed=898, moves=[(0, 0), (0, 0), (0, 0), (1, 0)])  # a dilated kernel of an even size
def test_random_networks_equal_dense_while_the_camera_moves(seed: int, moves: list[tuple[int, int]]) -> None:
    assert_follows_the_camera(random_model(seed).model(), moves, seed)


@settings(max_examples=6)
@given(
    mode=st.sampled_from(["bilinear", "bicubic"]),
    factor=st.sampled_from([2, 4]),
    moves=st.lists(st.tuples(st.integers(-2, 2), st.integers(-2, 2)), min_size=3, max_size=5),
    seed=st.integers(0, 99),
)
@example(mode="bilinear", factor=2, moves=[(0, 0), (1, 0), (1, 0)], seed=0)
def test_resampled_maps_follow_up_to_their_ends(
    mode: str, factor: int, moves: list[tuple[int, int]], seed: int
) -> None:
    """The outputs beside the image's end read what lies there twice, and pixels that have left it lay elsewhere."""
    torch.manual_seed(seed)
    network = torch.nn.Sequential(
        torch.nn.Conv2d(3, 4, 3, stride=factor, padding=1),
        torch.nn.Upsample(scale_factor=factor, mode=mode),
        torch.nn.Conv2d(4, 4, 1),
    )
    model = model_of(network.eval(), ModelCard(name="resampling", input_size=(32, 48)))
    assert_follows_the_camera(model, [(factor * dx, factor * dy) for dx, dy in moves], seed)
