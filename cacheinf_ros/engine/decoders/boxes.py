# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Decodes boxes with class scores into detections, by non-maximum suppression within each class."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cacheinf_ros.engine.decoders.probabilities import sigmoid, softmax
from cacheinf_ros.engine.decoders.suppress import Found, best_class, suppress
from cacheinf_ros.graph.decoder_configs import Boxes

_ACTIVATIONS: dict[str, Callable[[NDArray[Any]], NDArray[Any]]] = {
    "none": lambda scores: scores,
    "softmax": softmax,
    "sigmoid": sigmoid,
}


def decode_boxes(boxes: NDArray[Any], scores: NDArray[Any], decoder: Boxes, input_size: tuple[int, int]) -> Found:
    """Read the boxes, and keep the best of overlapping ones.

    Args:
        boxes: float32 [1, n, 4], as ``decoder`` says.
        scores: float32 [1, n, classes].
        input_size: (height, width) of the model's input.

    Raises:
        ValueError: the shapes do not fit.
    """
    if boxes.ndim != 3 or boxes.shape[2] != 4 or scores.shape[:2] != boxes.shape[:2]:
        raise ValueError(f"boxes are [1, n, 4] and scores [1, n, classes], not {boxes.shape} and {scores.shape}")
    best, classes = best_class(_ACTIVATIONS[decoder.activation](scores[0]), decoder.background)
    chosen = np.flatnonzero(best >= decoder.score_threshold)
    found = (_left_top(boxes[0, chosen].astype(np.float32), decoder, input_size), best[chosen], classes[chosen])
    return suppress(found, score_threshold=decoder.score_threshold, iou_threshold=decoder.iou_threshold)


def _left_top(boxes: NDArray[np.float32], decoder: Boxes, input_size: tuple[int, int]) -> NDArray[np.float32]:
    if decoder.relative:
        boxes = boxes * np.array([input_size[1], input_size[0]] * 2, np.float32)
    if decoder.corners:
        return np.concatenate([boxes[:, :2], boxes[:, 2:] - boxes[:, :2]], axis=1)
    return np.concatenate([boxes[:, :2] - boxes[:, 2:] / 2, boxes[:, 2:]], axis=1)
