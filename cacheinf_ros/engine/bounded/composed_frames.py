# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Composes the image that the cache stands for after each frame of a sequence."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from cacheinf_ros.cache_map import CacheMap
from cacheinf_ros.engine.execution.active import ActiveSet
from cacheinf_ros.engine.execution.propagation import propagate
from cacheinf_ros.engine.preprocess import Preprocessor
from cacheinf_ros.geometry import Brush, KeyframePolicy, KeyframeWindow

Image = NDArray[np.uint8]
_POLICY = KeyframePolicy(most_distorted=0.2, most_shifted=0.2)


def compose_frames(
    preprocessor: Preprocessor, frames: Sequence[Image], maps: Sequence[CacheMap | None] | None
) -> list[Image]:
    """Compose images at the model's size: each is the frame where its map says active, the image before elsewhere.

    They follow the camera as the engine does, but without its shifts, which matter little in the few frames of a
    calibration.
    """
    composed: list[Image] = []
    keyframe = KeyframeWindow(preprocessor.size, unit=None, policy=_POLICY)
    brush = Brush(preprocessor.size)
    for i, frame in enumerate(frames):
        image = preprocessor.resize(frame)
        cache_map = maps[i] if maps else None
        if (
            composed
            and cache_map is not None
            and not cache_map.is_empty
            and _follows(keyframe, preprocessor, cache_map)
        ):
            picture = composed[-1].copy()
            brush.paint(image, _touched(preprocessor, cache_map), keyframe.motion, picture)
            image = picture
        else:
            keyframe.restart()
        composed.append(image)
    return composed


def _follows(keyframe: KeyframeWindow, preprocessor: Preprocessor, cache_map: CacheMap) -> bool:
    return keyframe.follow(preprocessor.in_input(cache_map.motion, cache_map.image_size)) is not None


def _touched(preprocessor: Preprocessor, cache_map: CacheMap) -> NDArray[np.uint8]:
    rows, columns = cache_map.reusable.shape
    blocks, touched = ActiveSet((rows, columns)), ActiveSet(preprocessor.size)
    np.copyto(blocks.mask, ~cache_map.reusable)
    blocks.use_mask()
    propagate(preprocessor.taps_of_blocks(cache_map), blocks, touched)
    return touched.mask
