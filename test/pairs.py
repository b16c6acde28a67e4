# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Two programs in this process that share the rows of one network, with a link between them."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from partitions import nearest
from programs import change, changing_frames

from cacheinf_ros.engine.backends import Backend, choose_backend
from cacheinf_ros.engine.caching import EVERYTHING, Caching
from cacheinf_ros.engine.execution.propagation import Border
from cacheinf_ros.engine.partition.exchange import Patch
from cacheinf_ros.engine.partition.partition import Partition, PartitionSpace, Side
from cacheinf_ros.engine.partition.transferring import outgoing, take_in
from cacheinf_ros.engine.program import Program
from cacheinf_ros.graph.ir import Graph

_PATIENCE_S = 20.0


class Link:
    """The link between two programs of one process, in both directions."""

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
    """A robot's program and a server's, connected by a link."""

    def __init__(self, graph: Graph, kernels: Callable[[], Backend], caching: Caching = EVERYTHING) -> None:
        self.robot, self.server = (
            Program(graph, kernels(), caching, side=side, debug_memory=bool(caching.dropped)) for side in Side
        )
        self.link = Link()
        for program, side in ((self.robot, Side.ROBOT), (self.server, Side.SERVER)):
            assert program.replicas is not None
            program.replicas.exchange = self.link.end(side)

    def run(
        self, image: torch.Tensor, mask: NDArray[np.uint8], partition: Partition, *, refresh: bool, outside: Border
    ) -> list[torch.Tensor]:
        robot, server = self.robot, self.server
        assert robot.replicas is not None and server.replicas is not None
        anew = refresh or partition != server.replicas.partition  # as PartitionWorker does
        for program in (robot, server):
            program.replicas.use(partition)
        change(robot, image, mask)
        name = robot.layout.graph.input
        sent, taken = robot.replicas[name], server.replicas[name]
        sent.stale_remote |= mask
        server.changed_input.clear()
        if sent.sent[1] > sent.sent[0]:
            take_in(taken, outgoing(sent, robot.input.pixels), server.input.pixels, server.changed_input)
        thread = threading.Thread(target=server.execute, kwargs={"refresh": anew, "outside": outside})
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
    graph: Graph,
    seed: int,
    kernels: Callable[[], Backend] = native,
    frames: int = 6,
    rounding: float = 0.0,
    caching: Caching = EVERYTHING,
) -> None:
    """Check random partitions between two programs against one program that keeps all maps.

    Args:
        caching: what both programs of the pair keep.
    """
    rng = np.random.default_rng(seed)
    alone, pair = Program(graph, kernels()), Pair(graph, kernels, caching)
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
