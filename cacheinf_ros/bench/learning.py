# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The frames of a recording from which bounded mode learns: no figure about what it does afterwards has them."""

from __future__ import annotations

LEARNING = 32
"""The number of frames at the start in which bounded mode learns, or prepares its dense engines."""


def frames_to_learn(frames: int, *, promises: bool) -> int:
    """Return how many frames at the start of a recording count in no figure.

    Args:
        frames: how many frames there are; of fewer than twice those to learn from, all count, as too few would be left.
        promises: whether they were answered within a promise, which has to be learnt.
    """
    return LEARNING if promises and frames >= 2 * LEARNING else 0
