# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""A robot's engine and a server's worker give the outputs of one engine, despite motion and failures."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Collection
from dataclasses import replace
from functools import cache
from unittest.mock import patch

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from networks.shared_models import mixed_model, small_scenenet
from oracle import assert_result_equals_dense, changed, dense
from partitions import nearest
from quantised import scales_of
from triton_devices import HALVES

from cacheinf_ros.cache_map import CacheMap, Motion
from cacheinf_ros.engine import (
    Engine,
    EngineConfig,
    FrameStart,
    Mode,
    Outdated,
    Partition,
    PartitionWorker,
    Precision,
    Side,
)
from cacheinf_ros.engine.backends import choose_backend
from cacheinf_ros.engine.backends.triton_backend import TritonBackend
from cacheinf_ros.engine.caching import droppable
from cacheinf_ros.engine.cost import DenseSwitch
from cacheinf_ros.engine.execution.active import pooled
from cacheinf_ros.engine.half_maps import with_maps_in
from cacheinf_ros.engine.lifetimes import map_bytes
from cacheinf_ros.engine.partition import partition_worker
from cacheinf_ros.engine.partition.exchange import Patch
from cacheinf_ros.engine.quantisation import keep_scales
from cacheinf_ros.errors import EngineError, LinkError
from cacheinf_ros.graph import Model, ModelCard, model_of
from cacheinf_ros.sources.scenes import Gallery, load_photographs

MIXED = mixed_model()
CONFIG = EngineConfig(mode=Mode.EXACT, dense_fallback=False, threads=1)
_PATIENCE_S = 20.0


class Server:
    """A worker with a thread of its own, and a remote peer whose link breaks after some patches if told to."""

    def __init__(self, model: Model = MIXED, config: EngineConfig = CONFIG, dropped: Collection[str] = ()) -> None:
        self.helper = PartitionWorker(model, config, dropped)
        self.epoch = 0
        self.is_awaited = True
        self.partition: Partition | None = None
        self.breaks_after: int | None = None
        self.shared = 0
        self.failed = ""
        self._up: dict[str, queue.Queue[Patch | None]] = {}
        self._down: dict[str, queue.Queue[Patch | None]] = {}
        self._thread: threading.Thread | None = None

    def choose(self, outdated: Outdated) -> Partition | None:
        robot_rows = outdated.robot
        assert (pooled(outdated.changed, (robot_rows.shape[0], robot_rows.shape[1])) <= robot_rows).all()
        assert (outdated.changed <= outdated.server).all()
        return self.partition

    def begin(self, start: FrameStart) -> None:
        self.end()
        self._up, self._down = ({name: queue.Queue() for name in self.helper.space.heights} for _ in range(2))
        self._thread = threading.Thread(target=self._run, args=(start,))
        self._thread.start()
        self.shared += 1

    def fail(self, reason: str) -> None:
        """End the epoch: as in a session, the worker forgets everything, whether or not it noticed the failure."""
        self.failed = reason
        for waiting in (*self._up.values(), *self._down.values()):
            waiting.put(None)
        self.end()
        self.helper.forget()
        self.epoch += 1

    def end(self) -> None:
        if self._thread is not None:
            self._thread.join(_PATIENCE_S)
            assert not self._thread.is_alive()

    def send(self, tensor: str, patch: Patch) -> None:
        if self.breaks_after is not None:
            self.breaks_after -= 1
            if self.breaks_after < 0:
                for waiting in (*self._up.values(), *self._down.values()):
                    waiting.put(None)
                self.breaks_after = None
                raise LinkError("the link is cut")
        self._up[tensor].put(patch)

    def receive(self, tensor: str, rows: tuple[int, int]) -> Patch:
        return _taken(self._down[tensor])

    def _run(self, start: FrameStart) -> None:
        try:
            self.helper.compute_part(start, _ServerEnd(self._up, self._down))
        except LinkError:
            self.helper.forget()
            for waiting in self._down.values():
                waiting.put(None)


class _ServerEnd:
    def __init__(self, up: dict[str, queue.Queue[Patch | None]], down: dict[str, queue.Queue[Patch | None]]) -> None:
        self._up, self._down = up, down

    def send(self, tensor: str, patch: Patch) -> None:
        self._down[tensor].put(patch)

    def receive(self, tensor: str, rows: tuple[int, int]) -> Patch:
        return _taken(self._up[tensor])


def _taken(waiting: queue.Queue[Patch | None]) -> Patch:
    patch = waiting.get(timeout=_PATIENCE_S)
    if patch is None:
        raise LinkError("the link is cut")
    return patch


def random_partition(server: Server, rng: np.random.Generator) -> Partition | None:
    space = server.helper.space
    kind = rng.choice(["alone", "server", "rows", "layers"])
    if kind == "alone":
        return None
    if kind == "server":
        return space.everything_at(Side.SERVER)
    draw = rng.random if kind == "rows" else lambda: float(rng.integers(2))
    return nearest(space, {name: draw() for name in space.heights})


@settings(max_examples=12)
@given(seed=st.integers(0, 10**6), breaks=st.booleans())
def test_frames_equal_dense(seed: int, breaks: bool) -> None:
    """Partitions are random; links break within frames, and some frames only prepare the server."""
    rng = np.random.default_rng(seed)
    engine, server = Engine(MIXED, CONFIG, with_server=True), Server()
    if rng.random() < 0.5:
        server.helper.warm_up()
    image = rng.integers(0, 256, (90, 80, 3), dtype=np.uint8)
    cache_map: CacheMap | None = None
    for _ in range(7):
        if breaks and rng.random() < 0.3:
            server.breaks_after = int(rng.integers(4))
        server.partition, server.is_awaited = random_partition(server, rng), bool(rng.random() < 0.8)
        result = engine.run(image, cache_map, server)
        server.end()
        assert server.is_awaited or result.where == "local"
        assert_result_equals_dense(engine, result, image)
        image, cache_map = changed(image, 5, float(rng.choice([0.0, 0.02, 0.3])), rng)


@settings(max_examples=12)
@given(seed=st.integers(0, 10**6))
def test_frames_alone_are_computed_completely_where_the_cache_costs_more(seed: int) -> None:
    """A frame computed alone may fall back to dense execution, as without a server; a shared frame may not."""
    rng = np.random.default_rng(seed)
    engine, server = Engine(MIXED, CONFIG.changed(dense_fallback=True), with_server=True), Server()
    image, cache_map = rng.integers(0, 256, (90, 80, 3), dtype=np.uint8), None
    prefers = False
    with patch.object(DenseSwitch, "prefers_dense", lambda *_: prefers):
        for frame in range(8):
            server.partition, server.is_awaited = random_partition(server, rng), bool(rng.random() < 0.8)
            prefers = bool(rng.random() < 0.5)
            result = engine.run(image, cache_map, server)
            server.end()
            is_alone = server.partition is None or not server.is_awaited
            assert result.where == ("local" if is_alone else "shared")
            assert result.refreshed == (frame == 0 or (is_alone and prefers))
            assert_result_equals_dense(engine, result, image)
            image, cache_map = changed(image, 5, float(rng.choice([0.02, 0.3])), rng)


def test_a_server_whose_maps_take_16_bits(monkeypatch: pytest.MonkeyPatch, half: TritonBackend = HALVES[1]) -> None:
    """Transfers are float32, whatever the dtype of the server's maps."""
    halved = replace(MIXED, graph=with_maps_in(MIXED.graph, half.floats))
    monkeypatch.setattr(partition_worker, "executed_model", lambda *_: (halved, half))
    engine, server = Engine(MIXED, CONFIG, with_server=True), Server()
    assert server.helper.program.input.pixels.dtype is half.floats
    rng = np.random.default_rng(0)
    image = rng.integers(0, 256, (90, 80, 3), dtype=np.uint8)
    cache_map: CacheMap | None = None
    for _ in range(2):
        server.partition = nearest(server.helper.space, {name: rng.random() for name in server.helper.space.heights})
        result = engine.run(image, cache_map, server)
        server.end()
        assert not server.failed and result.where == "shared"
        for ours, exact in zip(result.outputs.values(), dense(MIXED, image), strict=True):
            assert np.sqrt(np.mean(np.square(ours - exact))) < 2e-2 * exact.std()
        image, cache_map = changed(image, 5, 0.1, rng)


@cache
def in_levels() -> tuple[EngineConfig, Engine]:
    """Keep scales that both machines find; return the configuration for int8, and an engine for dense execution."""
    keep_scales(MIXED, scales_of(MIXED))
    config = CONFIG.changed(precision=Precision.INT8)
    return config, Engine(MIXED, config.changed(mode=Mode.DENSE))


@pytest.mark.skipif(not choose_backend("cpu", 1, Precision.INT8).takes_levels, reason="needs the compiled kernels")
@settings(max_examples=30)
@example(seed=18, breaks=True)  # what changes and changes back while the robot computes alone
@given(seed=st.integers(0, 10**6), breaks=st.booleans())
def test_levels_equal_dense_bit_for_bit(seed: int, breaks: bool) -> None:
    """Frames alternate between two pictures, some are computed by the robot alone, and links break."""
    rng = np.random.default_rng(seed)
    config, dense = in_levels()
    engine, server = Engine(MIXED, config, with_server=True), Server(config=config)
    pictures = [rng.integers(0, 256, (90, 80, 3), dtype=np.uint8) for _ in range(2)]
    image, cache_map = pictures[0], None
    for _ in range(8):
        if breaks and rng.random() < 0.2:
            server.breaks_after = int(rng.integers(4))
        server.partition, server.is_awaited = random_partition(server, rng), bool(rng.random() < 0.8)
        found = engine.run(image, cache_map, server).outputs
        server.end()
        for name, expected in dense.run(image, None).outputs.items():
            assert np.array_equal(found[name], expected)
        image, cache_map = changed(image, 5, float(rng.choice([0.0, 0.05, 0.3])), rng, pictures[rng.integers(2)])


@pytest.mark.parametrize("falls_back", [False, True])
def test_a_moving_camera(falls_back: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server receives the shifts of all cached maps, also from frames in which it had no part.

    It also learns that its picture is outdated where such frames were computed completely.
    """
    model = small_scenenet()
    config = EngineConfig(mode=Mode.BOUNDED, dense_fallback=falls_back, threads=1)
    monkeypatch.setattr(DenseSwitch, "prefers_dense", lambda *_: server.partition is None)
    engine, alone, server = Engine(model, config, with_server=True), Engine(model, config), Server(model, config)
    rng = np.random.default_rng(0)
    world = np.asarray(load_photographs(Gallery.TEST)[0][:200, :260], np.uint8)
    x = y = 40
    cache_map: CacheMap | None = None
    for frame in range(20):
        image = np.ascontiguousarray(world[y : y + 96, x : x + 128])
        server.partition = None if frame % 4 == 2 else random_partition(server, rng)
        is_dense = frame == 0 or (falls_back and server.partition is None)
        expected = alone.run(image, cache_map)
        found = engine.run(image, cache_map, server)
        server.end()
        assert found.refreshed == expected.refreshed == is_dense
        for ours, theirs in zip(found.outputs.values(), expected.outputs.values(), strict=True):
            assert np.abs(ours - theirs).max() <= 1e-5
        before = x, y
        x, y = (int(np.clip(at + step, 0, 100)) for at, step in zip(before, rng.integers(-6, 7, 2), strict=True))
        moved = Motion.translation(before[0] - x, before[1] - y)
        reusable = np.ones((10, 13), np.bool_)
        reusable[rng.random(reusable.shape) < 0.05] = False
        cache_map = CacheMap.of_blocks(reusable, (96, 128), 10, moved)
    assert server.shared > 8


def test_both_ends_keep_what_the_budget_allows() -> None:
    """The third constraint of equation 9: the server keeps what the robot chose within its budget, or refuses."""
    budget_mb = 0.5 * Engine(MIXED, CONFIG).cache_bytes / 1e6
    config = CONFIG.changed(cache_budget_mb=budget_mb)
    engine = Engine(MIXED, config, with_server=True)
    assert engine.shared is not None
    dropped = engine.shared.space.dropped
    server = Server(config=config, dropped=dropped)
    layout = engine.program.layout
    free = sum(map_bytes(layout, name) for name in droppable(layout) if name not in dropped)
    assert dropped and free <= budget_mb * 1e6
    assert server.helper.program.maps.cache_bytes == engine.cache_bytes
    with pytest.raises(EngineError, match=r"cache\.budget_mb of the server"):
        PartitionWorker(MIXED, config, ())
    with pytest.raises(EngineError, match="this model has not"):
        PartitionWorker(MIXED, CONFIG, ["nothing"])


@pytest.mark.parametrize(
    "precision",
    [
        Precision.FLOAT32,
        pytest.param(
            Precision.INT8,
            marks=pytest.mark.skipif(
                not choose_backend("cpu", 1, Precision.INT8).takes_levels, reason="needs the compiled kernels"
            ),
        ),
    ],
)
@settings(max_examples=15)
@given(seed=st.integers(0, 10**6), share_kept=st.sampled_from([0.2, 0.5, 0.8]))
def test_merged_caches_shared_with_a_server_give_the_bits_of_an_engine_alone(
    precision: Precision, seed: int, share_kept: float
) -> None:
    """This holds for any partition and any kept maps, and for frames that the robot computes alone."""
    keep_scales(MIXED, scales_of(MIXED))
    config = CONFIG.changed(precision=precision)
    config = config.changed(cache_budget_mb=share_kept * Engine(MIXED, config).cache_bytes / 1e6)
    engine, alone = Engine(MIXED, config, with_server=True), Engine(MIXED, config)
    assert engine.shared is not None
    server = Server(config=config, dropped=engine.shared.space.dropped)
    rng = np.random.default_rng(seed)
    image, cache_map = rng.integers(0, 256, (90, 80, 3), dtype=np.uint8), None
    for _ in range(6):
        server.partition = random_partition(server, rng)
        result, expected = engine.run(image, cache_map, server), alone.run(image, cache_map).outputs
        server.end()
        assert not server.failed
        for name, found in result.outputs.items():
            assert np.array_equal(found, expected[name])
        if precision is Precision.FLOAT32:
            assert_result_equals_dense(engine, result, image)
        image, cache_map = changed(image, 5, 0.05, rng)


class _Indexed(torch.nn.Module):
    """A network that returns values that are no feature maps, and looks values up by a feature map's contents."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 5, 3, padding=1)
        self.table = torch.nn.Parameter(torch.rand(8, 2))

    def forward(self, image: torch.Tensor) -> dict[str, torch.Tensor]:
        heat = torch.sigmoid(self.conv(image))
        found = self.table.index_select(0, (7 * heat.amax((2, 3))).long()[0])
        return {"order": heat.mean((2, 3))[0].argsort(), "largest": heat.amax(1)[0], "found": found}


class _Lying(Server):
    """A server that sends something else in place of one tensor."""

    def __init__(self, model: Model) -> None:
        super().__init__(model)
        self.replaced = ""
        self.instead: Callable[[np.ndarray], np.ndarray] = np.asarray

    def receive(self, tensor: str, rows: tuple[int, int]) -> Patch:
        patch = super().receive(tensor, rows)
        return replace(patch, values=self.instead(patch.values)) if tensor == self.replaced else patch


@cache
def indexed_model() -> Model:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return model_of(_Indexed().eval(), ModelCard(name="indexed", input_size=(20, 24)))


def assert_computed_alone(server: _Lying, engine: Engine, partition: Partition) -> None:
    image = np.random.default_rng(1).integers(0, 256, (20, 24, 3), dtype=np.uint8)
    server.partition = partition
    result = engine.run(image, None, server)
    server.end()
    assert server.failed and result.where == "local"
    expected = Engine(indexed_model(), CONFIG).run(image, None).outputs
    for name, found in result.outputs.items():
        assert found.dtype == expected[name].dtype and np.array_equal(found, expected[name])


@pytest.mark.parametrize(
    ("output", "kind"),
    [("largest", np.bool_), ("largest", np.int64), ("largest", np.float64), ("order", np.float32), ("order", np.int32)],
)
def test_a_server_that_sends_values_of_another_type(output: str, kind: type) -> None:
    """The number of values is right, so that they were once published as a result."""
    model = indexed_model()
    engine, server = Engine(model, CONFIG, with_server=True), _Lying(model)
    engine.run(np.zeros((20, 24, 3), np.uint8), None)
    server.replaced, server.instead = dict(model.graph.outputs)[output], lambda values: values.astype(kind)
    assert_computed_alone(server, engine, server.helper.space.everything_at(Side.SERVER))


def test_a_server_whose_values_point_beside_a_table() -> None:
    """A frame once ended with torch's IndexError."""
    model = indexed_model()
    engine, server = Engine(model, CONFIG, with_server=True), _Lying(model)
    engine.run(np.zeros((20, 24, 3), np.uint8), None)
    space = server.helper.space
    (group,) = (names for names in space.groups if dict(model.graph.outputs)["found"] in names)
    server.replaced, server.instead = "mul", lambda values: values + np.float32(1e9)
    partition = nearest(space, {name: float(name in group) for name in space.heights})
    assert_computed_alone(server, engine, partition)


def test_what_is_no_feature_map_is_shared_by_an_honest_server() -> None:
    """The robot has to compute such a value once, so that it knows its dtype, before it can be shared."""
    engine, server = Engine(indexed_model(), CONFIG, with_server=True), Server(indexed_model())
    server.partition = server.helper.space.everything_at(Side.SERVER)
    rng, found = np.random.default_rng(0), []
    for _ in range(3):
        image = rng.integers(0, 256, (20, 24, 3), dtype=np.uint8)
        result = engine.run(image, None, server)
        server.end()
        found.append(result.where)
        assert_result_equals_dense(engine, result, image)
    assert found == ["local", "shared", "shared"] and not server.failed
