# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The effects of the virtual camera's sensor on a picture: slow change of brightness, and noise."""

from __future__ import annotations

import cv2
import numpy as np
from numpy.typing import NDArray

from cacheinf_ros.sources.scenes.scene_config import SceneConfig

_DRIFT_PERIOD_SECONDS = 10.0
_SPARE = 64


class Sensor:
    """Adds brightness changes and noise to a scene; the same frame always gets the same.

    Fresh normal noise takes longer than the rest of a frame, so each frame gets a random piece of one large field.
    """

    def __init__(self, config: SceneConfig, rng: np.random.Generator) -> None:
        self._seed = config.seed
        self._drift = config.drift
        self._noise: NDArray[np.int16] | None = None
        if config.noise_level > 0:
            height, width = config.size
            field = rng.standard_normal((height + _SPARE, width + _SPARE, 3), np.float32)
            self._noise = np.rint(field * config.noise_level).astype(np.int16)

    def expose(self, image: NDArray[np.uint8], index: int, seconds: float) -> NDArray[np.uint8]:
        """Return the picture as the camera delivers it, uint8 [height, width, 3]."""
        if self._drift > 0:
            gain = 1 + self._drift * np.sin(2 * np.pi * seconds / _DRIFT_PERIOD_SECONDS)
            image = np.asarray(cv2.convertScaleAbs(image, alpha=gain), np.uint8)
        if self._noise is None:
            return image
        top, left = np.random.default_rng((self._seed, index)).integers(0, _SPARE + 1, 2)
        height, width = image.shape[:2]
        piece = self._noise[top : top + height, left : left + width]
        return np.asarray(cv2.add(image, piece, dtype=cv2.CV_8U), np.uint8)
