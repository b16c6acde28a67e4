# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Dense execution by torch itself, which the engine is compared with, and frames that change."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import cv2
import numpy as np
import torch
from numpy.typing import NDArray

from cacheinf_ros.cache_map import CacheMap, Motion, grid_shape
from cacheinf_ros.engine import Engine, EngineConfig, EngineResult, Mode, Preprocessor
from cacheinf_ros.graph import Model
from cacheinf_ros.sources.scenes import Gallery, load_photographs

_IMAGES_NEARBY = 8


@torch.inference_mode()
def dense(model: Model, image: NDArray[np.uint8]) -> list[NDArray[np.float32]]:
    result = model.module(torch.from_numpy(Preprocessor(model.card).input(image)))
    values = list(result.values()) if isinstance(result, dict) else [result]
    return [value.numpy() for value in values]


def assert_equals_dense(engine: Engine, image: NDArray[np.uint8], cache_map: CacheMap | None) -> None:
    """Compute a frame with the engine, and check it by :func:`assert_result_equals_dense`."""
    assert_result_equals_dense(engine, engine.run(image, cache_map), image)


def assert_result_equals_dense(engine: Engine, result: EngineResult, image: NDArray[np.uint8]) -> None:
    """Check outputs against torch's: an NRMSE within 1e-5, or about as close to float64 as torch itself is.

    How close torch is to float64 is measured on this image and on :data:`_IMAGES_NEARBY` more that differ by a level
    here and there: an output of two or three values may be exact by luck on one of them.
    """
    ours, exact = list(result.outputs.values()), dense(engine.model, image)
    errors = [_error(a, b) for a, b in zip(ours, exact, strict=True)]
    if max(errors) <= 1e-5:
        return
    torchs = np.max([_errors_of_torch(engine.model, image) for image in _nearby(image)], axis=0)
    for a, p, error in zip(ours, _precise(engine.model, image), torchs, strict=True):
        assert _error(a, p) <= max(1e-5, 2 * error)


def _nearby(image: NDArray[np.uint8]) -> Iterator[NDArray[np.uint8]]:
    rng = np.random.default_rng(0)
    yield image
    for _ in range(_IMAGES_NEARBY):
        levels = image.astype(np.int16) + rng.integers(-1, 2, image.shape, dtype=np.int16)
        yield levels.clip(0, 255).astype(np.uint8)


def _errors_of_torch(model: Model, image: NDArray[np.uint8]) -> list[float]:
    return [_error(b, p) for b, p in zip(dense(model, image), _precise(model, image), strict=True)]


def _error(ours: NDArray[np.float32], exact: NDArray[Any]) -> float:
    """Return the RMS error over the standard deviation, at least a twentieth of what the largest error would give."""
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
    """Replace a share of an image's blocks by those of another image or by noise; return it with its cache map."""
    size = image.shape[:2]
    cache_map = CacheMap.of_blocks(rng.random(grid_shape(size, block)) >= share, size, block, Motion.none())
    other = rng.integers(0, 256, image.shape, dtype=np.uint8) if by is None else by
    return np.where(cache_map.active_mask[:, :, None], other, image), cache_map


def assert_sequence_equals_dense(model: Model, shares: tuple[float, ...] = (0.02, 0.0, 0.1), block: int = 10) -> None:
    """Check exact mode on photographs that change into others: on random noise whole networks may be chaotic."""
    rng = np.random.default_rng(1)
    engine = Engine(model, EngineConfig(mode=Mode.EXACT, dense_fallback=False))
    photographs = [cv2.resize(p, model.input_size[::-1]) for p in load_photographs(Gallery.TEST)]
    image = np.asarray(photographs[0], np.uint8)
    assert_equals_dense(engine, image, None)
    for i, share in enumerate(shares):
        image, cache_map = changed(image, block, share, rng, np.asarray(photographs[i + 1], np.uint8))
        assert_equals_dense(engine, image, cache_map)


def assert_follows_the_camera(model: Model, moves: list[tuple[int, int]], seed: int) -> None:
    """Check the cache while the camera pans over a photograph with noise in places, against dense execution."""
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
        tilt[0, 1] = rng.choice([0, 1e-3])  # sometimes a motion by fractions of pixels
        motion = Motion(matrix=tilt).then(Motion.translation(dx, dy))
        result = engine.run(frame, CacheMap.of_blocks(~grid, (height, width), 8, motion))
        assert_result_equals_dense(engine, result, engine.composed)
