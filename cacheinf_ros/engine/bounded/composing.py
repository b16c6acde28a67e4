# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""What the cache stands for after each frame of a sequence."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from cacheinf_ros.cache_map import CacheMap
from cacheinf_ros.engine.canvas import Canvas
from cacheinf_ros.engine.execution.active import ActiveSet
from cacheinf_ros.engine.execution.propagation import propagate
from cacheinf_ros.engine.following import in_input
from cacheinf_ros.engine.preprocess import Preprocessor
from cacheinf_ros.geometry.painting import Brush

Image = NDArray[np.uint8]
_FAR = 0.2  # of the diagonal: how far the camera may get


def compose_frames(
    preprocessor: Preprocessor, frames: Sequence[Image], maps: Sequence[CacheMap | None] | None
) -> list[Image]:
    """Images at the model's size: each the frame where its map says active, the one before elsewhere.

    They follow the camera as the engine does, but for its shifts: the few frames of a calibration see little of them.
    """
    composed: list[Image] = []
    canvas = Canvas(preprocessor.size, unit=None)
    canvas.limit = _FAR
    brush = Brush(preprocessor.size)
    for i, frame in enumerate(frames):
        image = preprocessor.resize(frame)
        given = maps[i] if maps else None
        cache_map = given.as_one_piece if given is not None else None
        if composed and cache_map is not None and len(cache_map.rectangles) and _follows(canvas, cache_map):
            picture = composed[-1].copy()
            brush.paint(image, _touched(preprocessor, cache_map), canvas.motion, picture)
            image = picture
        else:
            canvas.restart()
        composed.append(image)
    return composed


def _follows(canvas: Canvas, cache_map: CacheMap) -> bool:
    return canvas.follow(in_input(cache_map.motion, cache_map.image_size, canvas.size)) is not None


def _touched(preprocessor: Preprocessor, cache_map: CacheMap) -> NDArray[np.uint8]:
    rows, columns = cache_map.reusable.shape
    blocks, touched = ActiveSet((rows, columns)), ActiveSet(preprocessor.size)
    np.copyto(blocks.mask, ~cache_map.reusable)
    blocks.use_mask()
    propagate(preprocessor.taps_of_blocks(cache_map), blocks, touched)
    return touched.mask
