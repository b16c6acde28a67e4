# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Frames that are resized and compared on the device leave what those compared on the CPU do, bit for bit."""

from __future__ import annotations

import importlib

import numpy as np
import pytest
import torch
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from networks.shared_models import mixed_model
from triton_devices import DEVICE, DEVICE_NAME, HOST, TILES

from cacheinf_ros.cache_map import CacheMap, Motion, grid_shape
from cacheinf_ros.engine import Engine, EngineConfig
from cacheinf_ros.engine.backends import gpu_input
from cacheinf_ros.engine.backends.gpu_input import DeviceInputWriter, UploadingInputWriter, compares_on_device
from cacheinf_ros.engine.backends.triton_backend import TritonBackend
from cacheinf_ros.engine.buffers import MapBuffer, MapShape, allocate_maps
from cacheinf_ros.engine.delta_threshold import Criterion, DeltaThreshold
from cacheinf_ros.engine.execution.active import ActiveSet
from cacheinf_ros.engine.input import InputWriter
from cacheinf_ros.engine.preprocess import Preprocessor
from cacheinf_ros.graph import ModelCard
from cacheinf_ros.matching import MatcherName, MatchingStream, matching_for
from cacheinf_ros.mode import Mode

pytestmark = pytest.mark.skipif(HOST is None, reason="the compiled kernels are not built")
SIZE = (23, 31)
SIDES = st.integers(1, 75)
UNSHRUNK = (Phase.explicit, Phase.generate)  # to shrink takes minutes
FLOATS = (torch.float32, torch.float16, torch.bfloat16)


def writers(card: ModelCard, floats: torch.dtype, *, shares: bool) -> list[tuple[InputWriter, MapBuffer, ActiveSet]]:
    """One that compares on the CPU and one that does so on the device, each with a map and a set of its own."""
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


@settings(max_examples=40, phases=UNSHRUNK)
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
    card = ModelCard(name="t", input_size=size, channel_order=order, resize=resize, std=(0.2, 0.3, 0.4))
    image = np.random.default_rng(seed).integers(0, 256, (*frame_size, 3), dtype=np.uint8)
    _, (writer, target, changed) = writers(card, torch.float32, shares=False)
    writer.write_all(image, changed)
    expected = Preprocessor(card).resize(image)
    assert np.array_equal(writer.composed, expected)
    assert np.array_equal(target.pixels.cpu().view(*size, 3).numpy(), Preprocessor(card).normalise(expected))
    assert writer.count(changed) == changed.pixels


@settings(max_examples=30, phases=UNSHRUNK)
@given(data=st.data(), resize=st.sampled_from(["stretch", "letterbox"]), order=st.sampled_from(["rgb", "bgr"]))
def test_any_frames_maps_and_thresholds(data: st.DataObject, resize: str, order: str) -> None:
    """Whatever was touched, held back, moved or painted before."""
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
