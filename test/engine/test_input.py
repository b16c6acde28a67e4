# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Tests of the input map's contents after each frame, and of which of its pixels changed."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from cacheinf_ros.cache_map import CacheMap, Motion, expand_blocks
from cacheinf_ros.engine.backends import Backend, ReferenceBackend, choose_backend
from cacheinf_ros.engine.buffers import MapBuffer
from cacheinf_ros.engine.delta_threshold import Criterion, DeltaThreshold
from cacheinf_ros.engine.execution.active import ActiveSet
from cacheinf_ros.engine.preprocess import Preprocessor
from cacheinf_ros.errors import EngineError
from cacheinf_ros.graph import ModelCard

CPU = torch.device("cpu")
KERNELS = [ReferenceBackend(CPU), choose_backend("cpu", 1)]
SIZE = (23, 31)


@pytest.mark.parametrize("kernels", KERNELS, ids=lambda kernels: kernels.name)
@pytest.mark.parametrize(("size", "channels"), [((23, 30), 3), ((10, 10), 3), (SIZE, 1)])
def test_a_card_that_does_not_fit_to_the_network_is_refused(
    kernels: Backend, size: tuple[int, int], channels: int
) -> None:
    """Frames were once written beyond the end of the map."""
    preprocessor = Preprocessor(ModelCard(name="t", input_size=SIZE))
    with pytest.raises(EngineError, match="correct input_size, or build the catalog anew"):
        kernels.input(preprocessor, MapBuffer.allocate(size, channels, CPU))


@pytest.mark.parametrize("kernels", KERNELS, ids=lambda kernels: kernels.name)
@given(order=st.sampled_from(["rgb", "bgr"]), threshold=st.sampled_from([0.0, 0.2]), seed=st.integers(0, 999))
def test_only_touched_pixels_that_differ_enough_change(
    kernels: Backend, order: str, threshold: float, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    preprocessor = Preprocessor(ModelCard(name="t", input_size=SIZE, channel_order=order))
    target = MapBuffer.allocate(SIZE, 3, CPU)
    writer, changed = kernels.input(preprocessor, target), ActiveSet(SIZE)
    writer.set_threshold(
        DeltaThreshold(threshold=threshold, criterion=Criterion.ENERGY, weight=np.array([1, 2, 0.5], np.float32))
    )
    first = rng.integers(0, 256, (*SIZE, 3), dtype=np.uint8)
    writer.touch_all()
    writer.write(first, changed, everything=True)
    assert changed.count == changed.pixels
    second = np.where(rng.random((*SIZE, 1)) < 0.5, first, np.clip(first.astype(int) + rng.integers(-9, 10), 0, 255))
    reusable = rng.random((5, 7)) < 0.5
    writer.touch(CacheMap.of_blocks(reusable, SIZE, 5, Motion.none()))
    writer.write(second.astype(np.uint8), changed, everything=False)
    touched = ~expand_blocks(reusable, SIZE, 5)
    difference = (preprocessor.normalise(second.astype(np.uint8)) - preprocessor.normalise(first)) * [1, 2, 0.5]
    expected = touched & (np.sqrt(np.square(difference).sum(2)) > threshold)
    assert np.array_equal(changed.mask.astype(bool), expected)
    held = np.where(expected[..., None], second, first).astype(np.uint8)
    assert np.array_equal(target.pixels.view(*SIZE, 3).numpy(), preprocessor.normalise(held))
    assert np.array_equal(writer.composed, np.where(touched[..., None], second, first))


@given(
    tilt=st.sampled_from([0.0, 0.01, -0.02]),
    dx=st.sampled_from([0.0, 3.0, -2.25, 7.5]),
    dy=st.sampled_from([0.0, -4.0, 1.75]),
    everything=st.booleans(),
    seed=st.integers(0, 999),
)
def test_compiled_kernels_paint_as_the_reference_does(
    tilt: float, dx: float, dy: float, everything: bool, seed: int
) -> None:
    motion = Motion(matrix=np.array([[1, tilt, dx], [-tilt, 1, dy], [1e-4 * tilt, 0, 1]]))
    reusable = np.random.default_rng(seed).random((5, 7)) < 0.7
    results = []
    for kernels in KERNELS:
        rng = np.random.default_rng(seed)
        preprocessor = Preprocessor(ModelCard(name="t", input_size=SIZE))
        target = MapBuffer.allocate(SIZE, 3, CPU)
        writer, changed = kernels.input(preprocessor, target), ActiveSet(SIZE)
        writer.touch_all()
        writer.write(rng.integers(0, 256, (*SIZE, 3), dtype=np.uint8), changed, everything=True)
        unseen = (rng.random(SIZE) < 0.01).astype(np.uint8)
        writer.touch(CacheMap.of_blocks(reusable, SIZE, 5, motion))
        frame = rng.integers(0, 256, (*SIZE, 3), dtype=np.uint8)
        writer.paint(frame, motion, unseen, changed, everything=everything)
        results.append((writer.composed, changed.mask.copy(), unseen, target.pixels.numpy()))
    for ours, theirs in zip(*results, strict=True):
        assert np.array_equal(ours, theirs)
