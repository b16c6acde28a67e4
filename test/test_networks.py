# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Networks that users run, each loaded once: however they are executed, the outputs equal dense execution."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from oracle import assert_follows_the_camera, assert_sequence_equals_dense
from pairs import assert_one_and_two_agree
from programs import assert_same_outputs, caching_and_not, dense_records
from small_inputs import SIZES, each_network

from cacheinf_ros.engine.caching import Caching, droppable
from cacheinf_ros.engine.layout import lay_out
from cacheinf_ros.graph import Model, load_model
from cacheinf_ros.memory.optimal import optimal


@pytest.fixture(scope="module")
def model(request: pytest.FixtureRequest) -> Model:
    """Load the network of a reference; pytest runs all tests of one network before the next."""
    torch.manual_seed(0)
    return load_model(request.param, input_size=SIZES[request.param])


@each_network()
def test_sequences_equal_dense(model: Model) -> None:
    assert model.graph.unknown == ()
    assert_sequence_equals_dense(model)


@each_network(
    "resnet50", "efficientnet_b0", "convnext_tiny", "shufflenet_v2_x1_0", "deeplabv3_mobilenet_v3_large",
    "espnet", "pose", "scenenet",
)  # fmt: skip
@pytest.mark.parametrize("kind", ["half", "all", "dense"])
def test_whatever_is_kept_between_frames(model: Model, kind: str) -> None:
    layout, rng = lay_out(model.graph), np.random.default_rng(0)
    dropped = frozenset(name for name in droppable(layout) if kind == "all" or rng.random() < 0.5)
    caching = Caching.nothing(layout) if kind == "dense" else Caching(dropped=dropped)
    assert_same_outputs(model.graph, caching_and_not(model.graph, caching), 0, frames=3)


@each_network("resnet50", "efficientnet_b0", "espnet", "pose", "scenenet")
def test_two_machines_that_share_rows(model: Model) -> None:
    assert_one_and_two_agree(model.graph, 0)


@each_network("scenenet", "mobilenet_v2", "efficientnet_b0")
def test_while_the_camera_moves(model: Model) -> None:
    moves = [(3, 0), (3, 1), (9, -9), (9, 3), (-20, 0), (0, 30), (2, 2)]
    assert_follows_the_camera(model, moves, 1)


@each_network()
def test_dense_execution_takes_as_little_memory_as_can_be(model: Model) -> None:
    assert optimal(dense_records(model.graph), time_limit_s=20).is_proven
