# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Mean intersection over union: how well class maps agree with those that somebody drew."""

from __future__ import annotations

import cv2
import numpy as np
from numpy.typing import NDArray

UNJUDGED = 255
"""The number of pixels whose class nobody knows, as in the maps of VOC and Cityscapes."""
Map = NDArray[np.uint8]
Counts = NDArray[np.int64]


def class_counts(found: Map, right: Map, classes: int) -> Counts:
    """Count the pixels of each pair of classes, int64 [right class, found class].

    Args:
        found: a network's map, [h, w], which is enlarged to the size of the drawn one.
        right: the drawn map, [height, width]; pixels that are :data:`UNJUDGED` do not count.
        classes: number of classes, of which both maps have no others.
    """
    enlarged = cv2.resize(found, right.shape[::-1], interpolation=cv2.INTER_NEAREST)
    counts = right != UNJUDGED
    pairs = right[counts].astype(np.int64) * classes + enlarged[counts]
    return np.bincount(pairs, minlength=classes * classes).reshape(classes, classes)


def mean_iou(counts: Counts) -> float:
    """Return the mean over the classes that are in either map, of both maps' common pixels by those in either; or 1."""
    common = np.diagonal(counts)
    either = counts.sum(axis=0) + counts.sum(axis=1) - common
    seen = either > 0
    return float((common[seen] / either[seen]).mean()) if seen.any() else 1.0
