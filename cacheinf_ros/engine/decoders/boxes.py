"""Boxes with class scores -> detections, by non-maximum suppression within each class."""

from __future__ import annotations

from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from cacheinf_ros.graph.card import Boxes


def decode_boxes(
    boxes: NDArray[Any], scores: NDArray[Any], decoder: Boxes, input_size: tuple[int, int]
) -> tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.int64]]:
    """Keep the best of overlapping boxes.

    Args:
        boxes: float32 [1, n, 4], as ``decoder`` says.
        scores: float32 [1, n, classes].
        input_size: (height, width) of the model's input.

    Returns:
        boxes [m, 4] as (x, y, width, height) in pixels of the input, scores [m], class ids [m]; best first.

    Raises:
        ValueError: the shapes do not fit.
    """
    if boxes.ndim != 3 or boxes.shape[2] != 4 or scores.shape[:2] != boxes.shape[:2]:
        raise ValueError(f"boxes are [1, n, 4] and scores [1, n, classes], not {boxes.shape} and {scores.shape}")
    candidates = scores[0].astype(np.float32)
    if decoder.background is not None:
        candidates = candidates.copy()
        candidates[:, decoder.background] = -1.0
    ids = candidates.argmax(1)
    best = candidates.max(1)
    chosen = np.flatnonzero(best >= decoder.score_threshold)
    sized = _left_top(boxes[0, chosen].astype(np.float32), decoder, input_size)
    kept = np.array(
        cv2.dnn.NMSBoxesBatched(
            sized.tolist(), best[chosen].tolist(), ids[chosen].tolist(), decoder.score_threshold, decoder.iou_threshold
        ),
        np.int64,
    ).reshape(-1)
    kept = kept[np.argsort(-best[chosen][kept], kind="stable")]
    return sized[kept], best[chosen][kept], ids[chosen][kept]


def _left_top(boxes: NDArray[np.float32], decoder: Boxes, input_size: tuple[int, int]) -> NDArray[np.float32]:
    if decoder.relative:
        boxes = boxes * np.array([input_size[1], input_size[0]] * 2, np.float32)
    if decoder.corners:
        return np.concatenate([boxes[:, :2], boxes[:, 2:] - boxes[:, :2]], axis=1)
    return np.concatenate([boxes[:, :2] - boxes[:, 2:] / 2, boxes[:, 2:]], axis=1)
