# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Dense execution by torch itself, which the engine is compared with, and frames that change."""

from __future__ import annotations

import copy
from typing import Any

import cv2
import numpy as np
import torch
from numpy.typing import NDArray

from cacheinf_ros.cache_map import CacheMap, Motion, grid_shape
from cacheinf_ros.engine import Engine, EngineConfig, EngineResult, Mode, Preprocessor
from cacheinf_ros.graph import Model
from cacheinf_ros.sources.scenes import Gallery, load_photographs


@torch.inference_mode()
def dense(model: Model, image: NDArray[np.uint8]) -> list[NDArray[np.float32]]:
    result = model.module(torch.from_numpy(Preprocessor(model.card).input(image)))
    values = list(result.values()) if isinstance(result, dict) else [result]
    return [value.numpy() for value in values]


def assert_equals_dense(engine: Engine, image: NDArray[np.uint8], cache_map: CacheMap | None) -> None:
    """What the engine says of a frame; see :func:`assert_result_equals_dense`."""
    assert_result_equals_dense(engine, engine.run(image, cache_map), image)


def assert_result_equals_dense(engine: Engine, result: EngineResult, image: NDArray[np.uint8]) -> None:
    """1e-5 of the outputs' standard deviation; where torch itself is further from float64, as close as torch."""
    ours, exact = list(result.outputs.values()), dense(engine.model, image)
    errors = [_error(a, b) for a, b in zip(ours, exact, strict=True)]
    if max(errors) <= 1e-5:
        return
    precise = _precise(engine.model, image)
    for a, b, p in zip(ours, exact, precise, strict=True):
        assert _error(a, p) <= max(1e-5, 4 * _error(b, p))


def _error(ours: NDArray[np.float32], exact: NDArray[Any]) -> float:
    """RMS over the spread; a single wrong pixel counts as if all were a twentieth as wrong."""
    spread = max(float(exact.std() if exact.size > 1 else np.abs(exact).max()), 1e-3)
    difference = np.abs(ours - exact)
    return max(float(np.sqrt(np.mean(np.square(difference)))), float(difference.max()) / 20) / spread


@torch.inference_mode()
def _precise(model: Model, image: NDArray[np.uint8]) -> list[NDArray[np.float64]]:
    module = copy.deepcopy(model.module).double()
    result = module(torch.from_numpy(Preprocessor(model.card).input(image)).double())
    values = list(result.values()) if isinstance(result, dict) else [result]
    return [value.numpy() for value in values]


def changed(
    image: NDArray[np.uint8],
    block: int,
    share: float,
    rng: np.random.Generator,
    by: NDArray[np.uint8] | None = None,
) -> tuple[NDArray[np.uint8], CacheMap]:
    """The image with a share of its blocks replaced by those of another, or by noise, and the map that says so."""
    size = image.shape[:2]
    cache_map = CacheMap.of_blocks(rng.random(grid_shape(size, block)) >= share, size, block, Motion.none())
    other = rng.integers(0, 256, image.shape, dtype=np.uint8) if by is None else by
    return np.where(cache_map.active_mask[:, :, None], other, image), cache_map


def assert_sequence_equals_dense(model: Model, shares: tuple[float, ...] = (0.02, 0.0, 0.1), block: int = 10) -> None:
    """In exact mode, of photographs that change into others: in random noise whole networks may be chaotic."""
    rng = np.random.default_rng(1)
    engine = Engine(model, EngineConfig(mode=Mode.EXACT, dense_fallback=False))
    photographs = [cv2.resize(p, model.input_size[::-1]) for p in load_photographs(Gallery.TEST)]
    image = np.asarray(photographs[0], np.uint8)
    assert_equals_dense(engine, image, None)
    for i, share in enumerate(shares):
        image, cache_map = changed(image, block, share, rng, np.asarray(photographs[i + 1], np.uint8))
        assert_equals_dense(engine, image, cache_map)


def assert_follows_the_camera(model: Model, moves: list[tuple[int, int]], seed: int) -> None:
    """The camera pans over a photograph while noise is seen in places; cached equals dense on what the cache holds."""
    rng = np.random.default_rng(seed)
    height, width = model.input_size
    photograph = np.asarray(cv2.resize(load_photographs(Gallery.TEST)[seed % 4], (width + 200, height + 200)), np.uint8)
    engine = Engine(model, EngineConfig(mode=Mode.BOUNDED, dense_fallback=False))  # uncalibrated: holds nothing back
    x = y = 100
    engine.run(np.ascontiguousarray(photograph[y : y + height, x : x + width]), None)
    for dx, dy in moves:
        x, y = x - dx, y - dy
        frame = photograph[y : y + height, x : x + width].copy()
        grid = rng.random((-(-height // 8), -(-width // 8))) < 0.05
        active = np.kron(grid, np.ones((8, 8), bool))[:height, :width]
        frame[active] = rng.integers(0, 256, (int(active.sum()), 3))
        tilt = np.eye(3)
        tilt[0, 1] = rng.choice([0, 1e-3])  # between pixels now and then
        motion = Motion(matrix=tilt).then(Motion.translation(dx, dy))
        result = engine.run(frame, CacheMap.of_blocks(~grid, (height, width), 8, motion))
        assert_result_equals_dense(engine, result, engine.composed)
