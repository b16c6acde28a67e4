# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Two machines that share the rows of a network compute what one does, however often the partition changes."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from lowered import graph_of
from networks.random_models import random_model, seeds
from networks.shared_models import mixed_model
from pairs import Pair, assert_one_and_two_agree, native, random_partition
from programs import change
from torch import nn

from cacheinf_ros.engine.backends import ReferenceBackend
from cacheinf_ros.engine.caching import Caching, droppable
from cacheinf_ros.engine.delta_threshold import DeltaThreshold
from cacheinf_ros.engine.execution.propagation import Border
from cacheinf_ros.engine.layout import lay_out
from cacheinf_ros.engine.partition.partition import Partition, PartitionSpace, Side, Transfer
from cacheinf_ros.engine.program import Program
from cacheinf_ros.errors import EngineError
from cacheinf_ros.graph.ir import Conv, Pointwise


@settings(max_examples=25)
@given(seed=seeds, share=st.sampled_from([0.0, 0.5, 1.0]))
def test_random_networks(seed: int, share: float) -> None:
    """Some maps are kept at neither end. Outputs agree bit for bit, except where torch computes.

    Its functions treat the last few values of a row differently.
    """
    graph, rng = random_model(seed).graph, np.random.default_rng(seed)
    dropped = frozenset(name for name in droppable(lay_out(graph)) if rng.random() < share)
    by_torch = any(isinstance(operator, Pointwise) for operator in graph.operators)
    assert_one_and_two_agree(graph, seed, rounding=1e-5 if by_torch else 0.0, caching=Caching(dropped=dropped))


def test_the_reference_executor_does_the_same() -> None:
    graph = mixed_model().graph
    assert_one_and_two_agree(graph, 1, lambda: ReferenceBackend(torch.device("cpu")), rounding=1e-5)


class _Larger(nn.Module):
    """A transposed convolution that becomes one of single pixels and ends with a line and a column beyond its input."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 4, 3, padding=1), nn.Conv2d(4, 6, 1, stride=3)
        self.up = nn.ConvTranspose2d(6, 2, 3, stride=3, output_padding=2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.up(torch.relu(self.second(torch.relu(self.first(x)))))


@pytest.mark.parametrize("is_merged", [False, True])
def test_an_output_larger_than_what_it_reads_pixel_by_pixel(is_merged: bool) -> None:
    torch.manual_seed(0)
    graph = graph_of(_Larger().eval(), (27, 18))
    sizes = [(o.window.in_size, o.window.out_size) for o in graph.operators if isinstance(o, Conv)]
    assert ((9, 6), (10, 7)) in sizes
    dropped = frozenset(droppable(lay_out(graph))) if is_merged else frozenset()
    assert bool(dropped) == is_merged
    for seed in range(3):
        assert_one_and_two_agree(graph, seed, caching=Caching(dropped=dropped))


class _Chain(nn.Module):
    """A chain of a, then b with a window of 5 at stride 2, then c, the mean: 20, 10 and 1 rows."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Conv2d(3, 4, 1), nn.Conv2d(4, 4, 5, stride=2, padding=2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.b(torch.relu(self.a(x))).mean((2, 3))


def test_what_crosses() -> None:
    """Worked out by hand: row 3 of b reads rows 4 to 8 of a, and row 4 reads rows 6 to 10."""
    space = PartitionSpace(lay_out(graph_of(_Chain(), (20, 16))))
    image, a, b, c = space.shapes
    found = space.transfers(Partition(robot_rows={a: 8, b: 4, c: 1}))
    assert found == (
        Transfer(tensor=image, to=Side.SERVER, rows=(8, 20)),
        Transfer(tensor=a, to=Side.ROBOT, rows=(8, 9)),
        Transfer(tensor=a, to=Side.SERVER, rows=(6, 8)),
        Transfer(tensor=b, to=Side.ROBOT, rows=(4, 10)),
    )
    at_server = space.transfers(space.everything_at(Side.SERVER))
    assert at_server == (
        Transfer(tensor=image, to=Side.SERVER, rows=(0, 20)),
        Transfer(tensor=c, to=Side.ROBOT, rows=(0, 1)),
    )
    assert space.transfers(space.everything_at(Side.ROBOT)) == ()


def test_what_crosses_where_a_map_is_not_kept() -> None:
    """Worked out by hand for the same chain without a: b reads the image through a, which never crosses."""
    layout = lay_out(graph_of(_Chain(), (20, 16)))
    image, a, b, c = PartitionSpace(layout).shapes
    space = PartitionSpace(layout, [a])
    assert list(space.heights) == [b, c]
    found = space.transfers(Partition(robot_rows={b: 4, c: 0}))
    assert found == (
        Transfer(tensor=image, to=Side.SERVER, rows=(6, 20)),
        Transfer(tensor=b, to=Side.SERVER, rows=(0, 4)),
        Transfer(tensor=c, to=Side.ROBOT, rows=(0, 1)),
    )


def test_what_cannot_be_split_is_named() -> None:
    class Sums(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.after = nn.Conv2d(3, 4, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.after(torch.cumsum(x, 2))

    space = PartitionSpace(lay_out(graph_of(Sums(), (6, 5))))
    (group,) = space.groups
    assert [space.heights[name] for name in group] == [6]
    space.check(space.everything_at(Side.SERVER))
    with pytest.raises(EngineError, match=group[0]):
        space.check(Partition(robot_rows={**space.everything_at(Side.SERVER).robot_rows, group[0]: 3}))
    with pytest.raises(EngineError, match="how many of the"):
        space.check(Partition(robot_rows={}))


@settings(max_examples=15)
@given(seed=st.integers(0, 10**6))
def test_small_changes_held_back_stay_small(seed: int) -> None:
    """Each machine compares with what the other last received from it, so errors do not add up."""
    graph = mixed_model().graph
    rng = np.random.default_rng(seed)
    pair, exact = Pair(graph, native), Program(graph, native())
    thresholds = {name: DeltaThreshold(threshold=0.02) for name in pair.robot.kept if rng.random() < 0.5}
    for program in (pair.robot, pair.server):
        program.set_thresholds(thresholds)
    assert pair.robot.replicas is not None
    size = graph.tensors[graph.input].size
    image = torch.from_numpy(rng.random((*size, 3), np.float32))
    errors = []
    for frame in range(12):
        mask = (rng.random(size) < (1.0 if frame == 0 else 0.3)).astype(np.uint8)
        partition = random_partition(pair.robot.replicas.space, rng)
        change(exact, image, mask)
        expected = [torch.as_tensor(value).clone() for value in exact.execute(refresh=frame == 0).values()]
        found = pair.run(image, mask, partition, refresh=frame == 0, outside=Border.NONE)
        errors.append(max(float((a - b).abs().max()) for a, b in zip(found, expected, strict=True)))
        image = image + torch.from_numpy(rng.normal(0, 0.02, (*size, 3)).astype(np.float32))
    assert errors[0] <= 1e-6
    assert max(errors[-4:]) <= max(0.2, 3 * max(errors[1:5]))
