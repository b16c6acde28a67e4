# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Two machines that share the rows of a network compute what one does, however often the partition changes."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from lowered import graph_of
from numpy.typing import NDArray
from partitions import nearest
from programs import change, changing_frames
from random_graphs import random_network
from small_inputs import each_network
from torch import nn

from cacheinf_ros.engine.backends import Backend, ReferenceBackend, choose_backend
from cacheinf_ros.engine.delta_threshold import DeltaThreshold
from cacheinf_ros.engine.execution.propagation import Border
from cacheinf_ros.engine.layout import lay_out
from cacheinf_ros.engine.partition.exchange import Patch
from cacheinf_ros.engine.partition.partition import Partition, PartitionSpace, Side, Transfer
from cacheinf_ros.engine.partition.transferring import outgoing, take_in
from cacheinf_ros.engine.program import Program
from cacheinf_ros.errors import EngineError
from cacheinf_ros.graph import load_model
from cacheinf_ros.graph.ir import Graph, Pointwise

NETWORKS = Path(__file__).parents[2] / "networks"
_PATIENCE_S = 20.0


class Link:
    """Both directions of what lies between two programs of one process."""

    def __init__(self) -> None:
        self._queues: dict[tuple[Side, str], queue.Queue[Patch]] = {}
        self._lock = threading.Lock()
        self.pixels = 0

    def end(self, side: Side) -> End:
        return End(self, side)

    def queue(self, to: Side, tensor: str) -> queue.Queue[Patch]:
        with self._lock:
            return self._queues.setdefault((to, tensor), queue.Queue())


class End:
    def __init__(self, link: Link, side: Side) -> None:
        self._link = link
        self._side = side

    def send(self, tensor: str, patch: Patch) -> None:
        self._link.pixels += int(patch.mask.sum())
        self._link.queue(self._side.other, tensor).put(patch)

    def receive(self, tensor: str, rows: tuple[int, int]) -> Patch:
        patch = self._link.queue(self._side, tensor).get(timeout=_PATIENCE_S)
        assert patch.rows == rows
        return patch


class Pair:
    """A robot's program and a server's."""

    def __init__(self, graph: Graph, kernels: Callable[[], Backend]) -> None:
        self.robot, self.server = (Program(graph, kernels(), side=side) for side in Side)
        self.link = Link()
        for program, side in ((self.robot, Side.ROBOT), (self.server, Side.SERVER)):
            assert program.replicas is not None
            program.replicas.exchange = self.link.end(side)

    def run(
        self, image: torch.Tensor, mask: NDArray[np.uint8], partition: Partition, *, refresh: bool, outside: Border
    ) -> list[torch.Tensor]:
        robot, server = self.robot, self.server
        assert robot.replicas is not None and server.replicas is not None
        for program in (robot, server):
            program.replicas.use(partition)
        change(robot, image, mask)
        name = robot.layout.graph.input
        sent, taken = robot.replicas[name], server.replicas[name]
        sent.stale_remote |= mask
        server.changed_input.clear()
        if sent.sent[1] > sent.sent[0]:
            take_in(taken, outgoing(sent, robot.input.pixels), server.input.pixels, server.changed_input)
        thread = threading.Thread(target=server.execute, kwargs={"refresh": refresh, "outside": outside})
        thread.start()
        outputs = robot.execute(refresh=refresh, outside=outside)
        thread.join(_PATIENCE_S)
        assert not thread.is_alive()
        return [torch.as_tensor(value).clone() for value in outputs.values()]


def native() -> Backend:
    return choose_backend("cpu", 1)


def random_partition(space: PartitionSpace, rng: np.random.Generator) -> Partition:
    kind = rng.choice(["robot", "server", "cut", "rows", "one"])
    names = list(space.heights)
    if kind in ("robot", "server"):
        return space.everything_at(Side(kind))
    if kind == "cut":
        cut = rng.integers(len(names))
        shares = {name: float((i < cut) == bool(rng.integers(2))) for i, name in enumerate(names)}
    elif kind == "one":
        shares = dict.fromkeys(names, float(rng.random()))
    else:
        shares = {name: float(rng.choice([0, 1, rng.random()])) for name in names}
    return nearest(space, shares)


def assert_one_and_two_agree(
    graph: Graph, seed: int, kernels: Callable[[], Backend] = native, frames: int = 6, rounding: float = 0.0
) -> None:
    rng = np.random.default_rng(seed)
    alone, pair = Program(graph, kernels()), Pair(graph, kernels)
    assert pair.robot.replicas is not None
    size = graph.tensors[graph.input].size
    for frame, image, mask, outside in changing_frames(size, rng, frames):
        partition = random_partition(pair.robot.replicas.space, rng)
        change(alone, image, mask)
        expected = alone.execute(refresh=frame == 0, outside=outside).values()
        found = pair.run(image, mask, partition, refresh=frame == 0, outside=outside)
        for ours, theirs in zip(found, map(torch.as_tensor, expected), strict=True):
            assert torch.allclose(ours, theirs, rtol=rounding, atol=rounding), (
                f"frame {frame}: {(ours - theirs).abs().max()}"
            )


@settings(max_examples=20)
@given(seed=st.integers(0, 10**6))
def test_random_networks(seed: int) -> None:
    """Bit for bit, but where torch computes: its functions treat the last few values of a row differently."""
    module = random_network(seed)
    graph = graph_of(module, module.input_size)
    by_torch = any(isinstance(operator, Pointwise) for operator in graph.operators)
    assert_one_and_two_agree(graph, seed, rounding=1e-5 if by_torch else 0.0)


@each_network("resnet50", "efficientnet_b0", "espnet", "pose", "scenenet")
def test_networks(name: str, size: tuple[int, int]) -> None:
    assert_one_and_two_agree(load_model(name, input_size=size).graph, 0)


def test_the_reference_executor_does_the_same() -> None:
    graph = load_model(f"{NETWORKS / 'small.py'}:mixed", input_size=(61, 47)).graph
    assert_one_and_two_agree(graph, 1, lambda: ReferenceBackend(torch.device("cpu")), rounding=1e-5)


class _Chain(nn.Module):
    """a, then b with a window of 5 at stride 2, then c, the mean: 20, 10 and 1 rows."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Conv2d(3, 4, 1), nn.Conv2d(4, 4, 5, stride=2, padding=2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.b(torch.relu(self.a(x))).mean((2, 3))


def test_what_crosses() -> None:
    """By hand: row 3 of b reads rows 4 to 8 of a, row 4 rows 6 to 10."""
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
    """With thresholds each machine compares with what the other has last seen of it: errors do not build up."""
    graph = load_model(f"{NETWORKS / 'small.py'}:mixed", input_size=(61, 47)).graph
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
