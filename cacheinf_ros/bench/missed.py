# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Measures for how long an object was missed that dense execution saw."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cacheinf_ros.engine.accuracy import DEFAULT_IOU
from cacheinf_ros.engine.decisions import LINK_IOU, SoftBoxes, class_overlaps


def longest_miss(expected: Sequence[SoftBoxes], answers: Sequence[SoftBoxes | None]) -> int:
    """Return the most consecutive frames in which an object was expected and not in the answer.

    Args:
        expected: the boxes of each frame; those count that have at least half of their weight.
        answers: the answer to each frame, None: there is none; an object is in it where a box of its class overlaps it
            by half, even a box that counts in part only.
    """
    longest = 0
    missed, runs = SoftBoxes.none(), np.zeros(0, np.int64)
    for there, answer in zip(expected, answers, strict=True):
        now = there.reported
        if answer is not None:
            overlaps = class_overlaps(now, answer.chosen(answer.weights > 0))
            now = now.chosen(overlaps.max(axis=1, initial=0.0) < DEFAULT_IOU)
        same = class_overlaps(now, missed) >= LINK_IOU
        runs = 1 + np.where(same, runs[None, :], 0).max(axis=1, initial=0)
        missed = now
        longest = max(longest, int(runs.max(initial=0)))
    return longest
