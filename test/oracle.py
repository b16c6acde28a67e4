"""Dense execution by torch itself, which the engine is compared with, and frames that change."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from cacheinf_ros.cache_map import CacheMap, Motion, grid_shape
from cacheinf_ros.engine import Engine, Preprocessor
from cacheinf_ros.graph import Model


@torch.inference_mode()
def dense(model: Model, image: NDArray[np.uint8]) -> list[NDArray[np.float32]]:
    result = model.module(torch.from_numpy(Preprocessor(model.card).input(image)))
    values = list(result.values()) if isinstance(result, dict) else [result]
    return [value.numpy() for value in values]


def assert_equals_dense(engine: Engine, image: NDArray[np.uint8], cache_map: CacheMap | None) -> None:
    """As close as float32 allows: torch's own results are as far from float64 on the deepest networks tested."""
    result = engine.run(image, cache_map)
    for ours, exact in zip(result.outputs.values(), dense(engine.model, image), strict=True):
        spread = max(float(exact.std() if exact.size > 1 else np.abs(exact).max()), 1e-3)
        assert np.sqrt(np.mean(np.square(ours - exact))) <= 1e-5 * spread
        assert np.abs(ours - exact).max() <= 2e-4 * spread, "one wrong pixel"


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
