# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The modes of the engine: the user chooses what is taken from the cache, and the matcher must know it."""

from __future__ import annotations

from enum import Enum


class Mode(Enum):
    """What the engine takes from its cache."""

    DENSE = "dense"
    """Nothing is taken: every pixel is computed."""
    EXACT = "exact"
    """Every pixel is taken whose whole receptive field did not change, at the same position: equal to dense."""
    DEEPCACHE = "deepcache"
    """Like exact, and where the picture moved, cached features move with it (DeepCache): no longer equal to dense."""
    BOUNDED = "bounded"
    """Like exact, and changes that matter too little are not propagated: the error stays below the one asked for."""
