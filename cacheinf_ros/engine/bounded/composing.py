"""What the cache stands for after each frame of a sequence."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from cacheinf_ros.cache_map import CacheMap
from cacheinf_ros.engine.execution.active import ActiveSet
from cacheinf_ros.engine.execution.growth import grow
from cacheinf_ros.engine.preprocess import Preprocessor

Image = NDArray[np.uint8]


def compose_frames(
    preprocessor: Preprocessor, frames: Sequence[Image], maps: Sequence[CacheMap | None] | None
) -> list[Image]:
    """Images at the model's size: each the frame where its map says active, the one before elsewhere.

    A map that follows a motion counts as none: bounded mode computes such a frame completely.
    """
    composed: list[Image] = []
    for i, frame in enumerate(frames):
        image = preprocessor.resize(frame)
        cache_map = maps[i] if maps else None
        if composed and cache_map is not None and cache_map.motion.is_none:
            touched = _touched(preprocessor, cache_map)
            image = np.where(touched[:, :, None], image, composed[-1])
        composed.append(image)
    return composed


def _touched(preprocessor: Preprocessor, cache_map: CacheMap) -> NDArray[np.bool_]:
    rows, columns = cache_map.reusable.shape
    blocks, touched = ActiveSet((rows, columns)), ActiveSet(preprocessor.size)
    np.copyto(blocks.mask, ~cache_map.reusable)
    blocks.use_mask()
    grow(preprocessor.reach_of_blocks(cache_map), blocks, touched, outside_is_active=False)
    return touched.mask.view(np.bool_)
