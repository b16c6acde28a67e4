# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Frames resized and compared on the device leave the same bits as frames compared on the CPU."""

from __future__ import annotations

import importlib
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from torch import nn
from triton_devices import DEVICE, DEVICE_NAME, HOST, TILES

from cacheinf_ros.cache_map import CacheMap, Motion, grid_shape
from cacheinf_ros.engine import Engine, EngineConfig
from cacheinf_ros.engine.backends.gpu_input import DeviceInputWriter, UploadingInputWriter
from cacheinf_ros.engine.backends.triton_backend import TritonBackend
from cacheinf_ros.engine.buffers import MapBuffer, MapShape, allocate_maps
from cacheinf_ros.engine.delta_threshold import Criterion, DeltaThreshold
from cacheinf_ros.engine.execution.active import ActiveSet
from cacheinf_ros.engine.gpu import frame_on_device
from cacheinf_ros.engine.input import InputWriter
from cacheinf_ros.engine.preprocess import Preprocessor
from cacheinf_ros.graph import ModelCard, SharedValues, model_of
from cacheinf_ros.matching import MatchingStream, matching_for
from cacheinf_ros.mode import Mode

pytestmark = pytest.mark.skipif(HOST is None, reason="the compiled kernels are not built")
SIZE = (23, 31)
SIDES = st.integers(1, 75)
UNSHRUNK = (Phase.explicit, Phase.generate)  # shrinking takes minutes
FLOATS = (torch.float32, torch.float16, torch.bfloat16)


def writers(card: ModelCard, floats: torch.dtype, *, shares: bool) -> list[tuple[InputWriter, MapBuffer, ActiveSet]]:
    """Return a writer that compares on the CPU and one that compares on the device, each with its own map and set."""
    assert HOST is not None and card.input_size is not None
    made = []
    for on_device in (False, True):
        (target,) = allocate_maps([MapShape(size=card.input_size, channels=3, floats=floats)], DEVICE)
        prepare = Preprocessor(card)
        writer: InputWriter = UploadingInputWriter(prepare, target, HOST)
        if on_device:
            writer = DeviceInputWriter(prepare, target, HOST, shares_memory=shares)
        made.append((writer, target, ActiveSet(card.input_size)))
    return made


@settings(max_examples=25, phases=UNSHRUNK)
@given(
    frame_size=st.tuples(SIDES, SIDES), size=st.tuples(SIDES, SIDES), factor=st.none() | st.integers(1, 3),
    resize=st.sampled_from(["stretch", "letterbox", "letterbox_corner"]), order=st.sampled_from(["rgb", "bgr"]),
    seed=st.integers(0, 999),
)  # fmt: skip
def test_frames_are_resized_as_opencv_does(
    frame_size: tuple[int, int], size: tuple[int, int], factor: int | None, resize: str, order: str, seed: int
) -> None:
    if factor is not None:
        size = (min(size[0], 25), min(size[1], 25))
        frame_size = (factor * size[0], factor * size[1])
    frame_size = (min(frame_size[0], 4 * size[0]), min(frame_size[1], 4 * size[1]))  # the interpreter takes its time
    card = ModelCard(name="t", input_size=size, channel_order=order, resize=resize, std=(0.2, 0.3, 0.4))
    image = np.random.default_rng(seed).integers(0, 256, (*frame_size, 3), dtype=np.uint8)
    _, (writer, target, changed) = writers(card, torch.float32, shares=False)
    writer.write_all(image, changed)
    expected = Preprocessor(card).resize(image)
    assert np.array_equal(writer.composed, expected)
    assert np.array_equal(target.pixels.cpu().view(*size, 3).numpy(), Preprocessor(card).normalise(expected))
    assert writer.count(changed) == changed.pixels


@settings(max_examples=20, phases=UNSHRUNK)
@given(data=st.data(), resize=st.sampled_from(["stretch", "letterbox"]), order=st.sampled_from(["rgb", "bgr"]))
def test_any_frames_maps_and_thresholds(data: st.DataObject, resize: str, order: str) -> None:
    """Results agree whatever was written, held back, moved or painted before."""
    card = ModelCard(name="t", input_size=SIZE, channel_order=order, resize=resize, std=(0.2, 0.3, 0.4))
    rng = np.random.default_rng(data.draw(st.integers(0, 9999), "seed"))
    frame_size = data.draw(st.sampled_from([SIZE, (40, 40), (60, 80), (46, 62), (17, 70)]), "size of frames")
    both = writers(card, data.draw(st.sampled_from(FLOATS), "floats"), shares=data.draw(st.booleans(), "shares"))
    image = rng.integers(0, 256, (*frame_size, 3), dtype=np.uint8)
    for writer, _, changed in both:
        writer.write_all(writer.fit(image), changed)
    steps = st.lists(st.sampled_from(["write", "write all", "composed", "move", "paint", "pixels", "hold"]), max_size=4)
    for step in [*data.draw(steps, "steps"), "write"]:
        noise = rng.integers(-9, 10, image.shape) * (rng.random((*frame_size, 1)) < 0.3)
        image = np.clip(image.astype(int) + noise, 0, 255).astype(np.uint8)
        block, share, seed = int(rng.integers(1, 20)), rng.choice([0.0, 0.3, 0.9, 1.0]), int(rng.integers(999))
        reusable = rng.random(grid_shape(frame_size, block)) < share
        cache_map = CacheMap.of_blocks(reusable, frame_size, block, Motion.none())
        everything, with_margin = (bool(rng.random() < 0.3) for _ in range(2))
        for writer, _, changed in both:
            same = np.random.default_rng(seed)
            if step == "hold":
                weight = same.random(3).astype(np.float32) if with_margin else None
                threshold = float(same.choice([0.0, 0.01, 0.1, 0.3]))
                writer.set_threshold(DeltaThreshold(threshold=threshold, criterion=Criterion.ENERGY, weight=weight))
            elif step == "move":
                writer.move(*same.integers(-4, 5, 2).tolist())
            elif step == "composed":
                writer.write_composed(changed)
            elif step == "write all":
                writer.write_all(writer.fit(image), changed)
            elif step == "pixels":
                writer.touch_pixels((same.random(SIZE) < 0.5).astype(np.uint8))
                writer.write(Preprocessor(card).resize(image), changed, everything=everything)
            elif step == "paint":
                writer.touch(cache_map)
                unseen = (same.random(SIZE) < 0.01).astype(np.uint8)
                motion, resized = Motion.translation(1.25, -2.0), Preprocessor(card).resize(image)
                writer.paint(resized, motion, unseen, changed, everything=everything)
            else:
                writer.touch(cache_map, with_margin=with_margin)
                writer.write(writer.fit(image), changed, everything=everything)
        assert_alike(both)


def assert_alike(both: list[tuple[InputWriter, MapBuffer, ActiveSet]]) -> None:
    (on_cpu, target, changed), (on_device, their_target, theirs) = both
    assert torch.equal(their_target.pixels, target.pixels)
    assert on_device.count(theirs) == changed.count
    mask = theirs.mask if theirs.device_mask is None else theirs.device_mask.cpu().view(SIZE).numpy()
    assert np.array_equal(mask, changed.mask)
    assert np.array_equal(on_device.composed, on_cpu.composed)
    assert np.array_equal(on_device.seen, on_cpu.seen)


def test_an_engine_computes_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """Frames are resized and have cache maps; the picture moves in two modes, and then all is recomputed.

    After deepcache, which leaves errors in the cache, the next mode's first frame is complete.
    """
    chooses = importlib.import_module("cacheinf_ros.engine.quantisation.executed_model")
    network = nn.Sequential(nn.Conv2d(3, 4, 3, 2, 1), nn.ReLU(), nn.Conv2d(4, 2, 3, padding=1))
    model = model_of(network.eval(), ModelCard(name="t", input_size=(32, 48)))
    engines = []
    for compares in (False, True):
        backend = TritonBackend(DEVICE, TILES, host=HOST, compares=compares)
        monkeypatch.setattr(chooses, "choose_backend", lambda *_, backend=backend: backend)
        engines.append(Engine(model, EngineConfig(mode=Mode.EXACT, dense_fallback=False)))
    rng = np.random.default_rng(0)
    frame = rng.integers(0, 256, (40, 60, 3), np.uint8)
    stream = MatchingStream(matching_for(Mode.EXACT))
    blocks = rng.random((4, 6)) < 0.7
    moved = {
        3: (Mode.DEEPCACHE, CacheMap.of_blocks(blocks, (40, 60), 10, Motion.translation(5.0, 0.0))),
        4: (Mode.EXACT, CacheMap.of_blocks(blocks, (40, 60), 10, Motion.none())),
        5: (Mode.BOUNDED, CacheMap.of_blocks(blocks, (40, 60), 10, Motion.translation(0.5, 0.25))),
    }
    for number in range(7):
        frame = frame.copy()
        frame[4 * number : 4 * number + 6, 20:26] = rng.integers(0, 256, (6, 6, 3), np.uint8)
        cache_map = stream.match(frame)
        if number in moved:
            mode, cache_map = moved[number]
            for engine in engines:
                engine.configure(EngineConfig(mode=mode, dense_fallback=False))
        results = [engine.run(frame, cache_map) for engine in engines]
        assert 0 < results[0].active_share == results[1].active_share
        assert (results[0].active_share < 1) == (number not in (0, 4))
        assert results[0].motion.is_none == (number < 5), "painted where the camera has moved"
        for ours, theirs in zip(results[1].outputs.values(), results[0].outputs.values(), strict=True):
            assert np.array_equal(ours, theirs)
        assert np.array_equal(engines[0].composed, engines[1].composed)
    with torch.inference_mode():
        first, second = (engine._cached.recomputed() for engine in engines)
    assert all(torch.equal(ours, theirs) for ours, theirs in zip(first, second, strict=True))


def test_where_frames_are_compared_is_measured_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    prepare, target = Preprocessor(ModelCard(name="t", input_size=SIZE)), MapBuffer.allocate(SIZE, 3, DEVICE)
    shared = SharedValues()
    backends = [TritonBackend(DEVICE, TILES, host=HOST, shared=shared) for _ in range(2)]
    chosen = [type(backend.input(prepare, target)) for backend in backends]
    assert caplog.text.count("frames are compared on the") == 1
    assert chosen[0] is chosen[1]
    assert DEVICE_NAME != "cpu" or chosen[0] is UploadingInputWriter  # the interpreter is no match for compiled code
    assert type(backends[0].input(prepare, target, on_host=True)) is UploadingInputWriter


@pytest.mark.parametrize("captures", [True, False])
def test_frames_are_replayed_as_one_graph(captures: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first frame is launched directly, as kernels are compiled then; so are all where no graph can be captured."""
    said: list[str] = []
    graph = SimpleNamespace(replay=lambda: said.append("replayed")) if captures else None
    monkeypatch.setattr(frame_on_device, "captured", lambda *_: said.append("captured") or graph)
    empty = np.zeros(0, np.uint8)
    launch = frame_on_device._Launch(
        image_size=(1, 1), block_size=1, flags=empty.view(np.int32), blocks=empty, frame=empty,
        launch=lambda: said.append("launched"),
    )  # fmt: skip
    for _ in range(3):
        launch.run(torch.device("cuda"))
    assert said == ["launched", "captured", *["replayed" if captures else "launched"] * 2]
