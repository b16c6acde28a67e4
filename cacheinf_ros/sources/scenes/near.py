# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""A second plane nearer to the camera: pillars that pass by faster than what is behind them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_PILLARS = 2  # pillars in a frame, as wide as the gaps
_SPEED = 2.5  # times the far plane's speed: an integer number of pixels per frame at 30 frames per second


class NearPlane:
    """Pillars with a texture of their own."""

    def __init__(self, world: NDArray[np.uint8]) -> None:
        """Prepare; ``world`` is the texture, uint8 [height, width, 3], which repeats at its edges."""
        self._world = world

    def passed(self, far_shift: float) -> int:
        """Return the pixels that the pillars have moved right when the far plane has moved by ``far_shift``."""
        return round(_SPEED * far_shift)

    def mask(self, shift: int, size: tuple[int, int]) -> NDArray[np.bool_]:
        """Return the pixels of a frame that show a pillar, bool [height, width]."""
        columns = (np.arange(size[1]) - shift) * 2 * _PILLARS // size[1] % 2 == 0
        return np.broadcast_to(columns, size)

    def cover(self, image: NDArray[np.uint8], shift: int) -> None:
        """Draw the pillars over a frame, uint8 [height, width, 3]."""
        height, width = image.shape[:2]
        seen = self.mask(shift, (height, width))[0]
        columns = (np.arange(width) - shift) % self._world.shape[1]
        image[:, seen] = self._world[:height, columns[seen]]
