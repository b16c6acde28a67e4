# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Tests of which pixels of the model's input depend on which pixels of the frame."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from cacheinf_ros.cache_map import CacheMap, Motion
from cacheinf_ros.engine import Preprocessor
from cacheinf_ros.engine.execution.active import ActiveSet
from cacheinf_ros.engine.execution.propagation import propagate
from cacheinf_ros.graph import ModelCard

sizes = st.tuples(st.integers(8, 90), st.integers(8, 90))


def preprocessor(size: tuple[int, int]) -> Preprocessor:
    return Preprocessor(ModelCard(name="test", input_size=size))


@settings(deadline=None, max_examples=200)
@given(source=sizes, target=sizes, seed=st.integers(0, 1000), span=st.integers(1, 20))
def test_inputs_outside_the_active_mask_do_not_change(
    source: tuple[int, int], target: tuple[int, int], seed: int, span: int
) -> None:
    rng = np.random.default_rng(seed)
    prepare = preprocessor(target)
    image = rng.integers(0, 256, (*source, 3), dtype=np.uint8)
    y, x = rng.integers(0, source[0]), rng.integers(0, source[1])
    mask = np.zeros(source, bool)
    mask[y : y + span, x : x + span] = True
    changed = np.where(mask[:, :, None], 255 - image, image)
    differs = (prepare.resize(image) != prepare.resize(changed)).any(2)
    cache_map = CacheMap.of_blocks(~mask, source, 1, Motion.none())
    blocks, touched = ActiveSet(source), ActiveSet(target)
    np.copyto(blocks.mask, mask)
    blocks.use_mask()
    propagate(prepare.taps_of_blocks(cache_map), blocks, touched)
    assert not (differs & ~touched.mask.astype(bool)).any()


def test_normalisation_by_hand() -> None:
    card = ModelCard(name="t", input_size=(1, 2), mean=(0.5, 0.25, 0.0), std=(0.5, 1.0, 2.0), channel_order="rgb")
    image = np.array([[[255, 0, 0], [0, 0, 255]]], np.uint8)  # blue, then red
    assert np.allclose(
        Preprocessor(card).input(image)[0], np.array([[[-1.0, 1.0]], [[-0.25, -0.25]], [[0.5, 0.0]]]), atol=1e-7
    )


@given(size=sizes, seed=st.integers(0, 1000))
def test_dense_and_cached_execution_start_from_equal_values(size: tuple[int, int], seed: int) -> None:
    prepare = Preprocessor(ModelCard(name="test", input_size=size, channel_order="rgb", std=(0.2, 0.3, 0.4)))
    image = np.random.default_rng(seed).integers(0, 256, (40, 50, 3), dtype=np.uint8)
    expected = prepare.normalise(prepare.resize(image)).transpose(2, 0, 1)[None]
    np.testing.assert_array_equal(prepare.input(image), expected)
