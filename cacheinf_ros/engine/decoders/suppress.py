# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Non-maximum suppression, which keeps the best of detections that overlap."""

from __future__ import annotations

from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

Found = tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.int64]]
"""Boxes [n, 4], (x, y, width, height) in pixels of the model's input, their scores [n] and classes [n], best first."""


def best_class(scores: NDArray[Any], background: int | None = None) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Return the score and the index of the best class of each row of [n, classes], the background left out."""
    candidates = scores.astype(np.float32)
    if background is not None:
        candidates[:, background] = -1.0
    return candidates.max(1), candidates.argmax(1)


def suppress(found: Found, *, score_threshold: float, iou_threshold: float) -> Found:
    """Drop boxes that score less than the threshold, and all but the best of one class's boxes that overlap too much.

    ``found`` may be in any order.
    """
    kept = surviving(found, score_threshold=score_threshold, iou_threshold=iou_threshold)
    boxes, scores, classes = found
    return boxes[kept], scores[kept], classes[kept]


def surviving(found: Found, *, score_threshold: float, iou_threshold: float) -> NDArray[np.int64]:
    """Return the indices of what :func:`suppress` keeps, best first."""
    boxes, scores, classes = (values.tolist() for values in found)
    below = float(np.nextafter(np.float32(score_threshold), np.float32(-1)))  # OpenCV drops a score that is the limit
    indices = cv2.dnn.NMSBoxesBatched(boxes, scores, classes, below, iou_threshold)
    kept = np.array(indices, np.int64).reshape(-1)
    return kept[np.argsort(-found[1][kept], kind="stable")]
