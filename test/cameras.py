# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""How far off a motion is."""

from __future__ import annotations

import numpy as np

from cacheinf_ros.cache_map import Motion


def corner_error(found: Motion, true: Motion, size: tuple[int, int]) -> float:
    """Pixels, of the corner that is furthest off."""
    corners = np.array([[0, 0, 1], [size[1], 0, 1], [0, size[0], 1], [size[1], size[0], 1]], np.float64).T
    places = [(m.matrix @ corners)[:2] / (m.matrix @ corners)[2] for m in (found, true)]
    return float(np.linalg.norm(places[0] - places[1], axis=0).max())
