# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""A measure of how far an estimated motion is from the true one."""

from __future__ import annotations

import numpy as np

from cacheinf_ros.cache_map import Motion


def corner_error(found: Motion, true: Motion, size: tuple[int, int]) -> float:
    """Return how far apart two motions take the image's corners: the largest of the four distances, in pixels."""
    corners = np.array([[0, 0, 1], [size[1], 0, 1], [0, size[0], 1], [size[1], size[0], 1]], np.float64).T
    places = [(m.matrix @ corners)[:2] / (m.matrix @ corners)[2] for m in (found, true)]
    return float(np.linalg.norm(places[0] - places[1], axis=0).max())
