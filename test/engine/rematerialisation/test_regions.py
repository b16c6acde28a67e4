# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Rectangles stand for active sets: they predict about as many pixels as a changed rectangle makes the engine compute.

The numbers differ a little, as active sets have holes behind strides.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from lowered import graph_of
from torch import nn

from cacheinf_ros.engine.backends import choose_backend
from cacheinf_ros.engine.caching import Caching, droppable
from cacheinf_ros.engine.execution.steps import Compute
from cacheinf_ros.engine.layout import lay_out
from cacheinf_ros.engine.program import Program
from cacheinf_ros.engine.rematerialisation.regions import RegionModel, Regions
from cacheinf_ros.graph import Graph, load_model

NETWORKS = Path(__file__).parents[2] / "networks"
SHARES = (1.0, 0.5, 0.2, 0.05)


@pytest.fixture(
    scope="module",
    params=["torchvision:resnet50", "torchvision:googlenet", str(NETWORKS / "espnet.yaml")],
    ids=["resnet50", "googlenet", "espnet"],
)
def graph(request: pytest.FixtureRequest) -> Graph:
    return load_model(request.param, input_size=(128, 192)).graph


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_as_many_pixels_as_are_computed(graph: Graph, share: float) -> None:
    layout, rng = lay_out(graph), np.random.default_rng(0)
    dropped = frozenset(n for n in droppable(layout) if rng.random() < share)
    program = Program(graph, choose_backend("cpu", 1), Caching(dropped=dropped))
    predicted = RegionModel(SHARES).counts(program.plan)
    steps = [step for step in program.plan.steps if isinstance(step, Compute)]
    for case, changed in enumerate(SHARES):
        program.changed_input.fill_middle(changed)
        program.execute()
        counted = np.array([step.active.count for step in steps])
        expected = np.array([predicted[step.active][case] for step in steps])
        assert 0.9 * counted.sum() < expected.sum() < 1.1 * counted.sum()


def test_the_halo_is_the_composed_receptive_field() -> None:
    """Two windows of 3: the second output grows by 2 on each side, for which it reads 1 more of the first output.

    With K1 + K1' instead of K1 + K1' - 1 (CacheInf section 4.2) it would be one more.
    """
    graph = graph_of(nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.Conv2d(4, 2, 3, padding=1)), (40, 60))
    layout = lay_out(graph)
    program = Program(graph, choose_backend("cpu", 1), Caching(dropped=frozenset(droppable(layout))))
    counts = RegionModel([0.01]).counts(program.plan)  # 4 x 6 pixels
    first, second = (step for step in program.plan.steps if isinstance(step, Compute))
    assert counts[second.active].tolist() == [(4 + 4) * (6 + 4)]
    assert counts[first.active].tolist() == [(4 + 6) * (6 + 6)]


def test_strides_multiply() -> None:
    """A window of 3 follows one of 3 at stride 2: it reads one more of the first, which is 2 of the input."""
    layers = nn.Sequential(nn.Conv2d(3, 4, 3, stride=2, padding=1), nn.Conv2d(4, 2, 3, padding=1))
    graph = graph_of(layers, (80, 120))
    layout = lay_out(graph)
    program = Program(graph, choose_backend("cpu", 1), Caching(dropped=frozenset(droppable(layout))))
    program.changed_input.mask[40, 60] = 1  # outputs 20, 30 of the first; 19..21 x 29..31 of the second
    program.changed_input.use_mask()
    program.execute()
    first, second = (step for step in program.plan.steps if isinstance(step, Compute))
    assert (second.active.count, first.active.count) == (9, 25)


def test_nothing_stays_nothing() -> None:
    graph = graph_of(nn.Conv2d(3, 4, 3, padding=1), (10, 10))
    plan = Program(graph, choose_backend("cpu", 1)).plan
    empty = Regions.whole((10, 10), np.array([0]))
    assert empty.united(empty).count.tolist() == [0]
    assert empty.united(Regions.whole((10, 10), np.array([1]))).count.tolist() == [100]
    assert Regions.whole((10, 10), np.array([1])).without(empty).count.tolist() == [100]
    assert all((count > 0).all() for count in RegionModel(SHARES).counts(plan).values())


def test_bits_of_the_input_that_nobody_reads() -> None:
    """A window of 1 at stride 2 reads every other pixel, and no operator needs the pixels between."""
    layers = nn.Sequential(nn.Conv2d(3, 4, 1), nn.Conv2d(4, 2, 1, stride=2))
    graph = graph_of(layers, (9, 9))
    program = Program(graph, choose_backend("cpu", 1), Caching(dropped=frozenset(droppable(lay_out(graph)))))
    program.changed_input.mask[4:6, 4:6] = 1
    program.changed_input.use_mask()
    program.input.pixels.copy_(torch.ones_like(program.input.pixels))
    program.execute()
    assert [step.active.count for step in program.plan.steps if isinstance(step, Compute)] == [1, 1]
