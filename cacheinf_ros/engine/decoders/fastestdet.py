# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Boxes from the output of FastestDet (github.com/dog-qiuqiu/FastestDet): one box per cell, without anchors."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cacheinf_ros.engine.decoders.suppress import Found, best_class, suppress
from cacheinf_ros.graph.decoder_configs import FastestDet

_SCORE_SHARE = 0.6  # weight of the cell's own score in the geometric mean; the class has the rest


def decode_fastestdet(output: NDArray[Any], decoder: FastestDet, input_size: tuple[int, int]) -> Found:
    """Read every cell's box, and keep the best of overlapping ones.

    Args:
        output: [1, 5 + classes, h, w]: whether there is an object (0 to 1); its centre's x and y from the cell's
            corner, in cells, before tanh; its width and height as shares of the image, before the logistic function;
            probabilities of the classes.
        input_size: (height, width) of the model's input.

    Raises:
        ValueError: the output has another shape.
    """
    if output.ndim != 4 or output.shape[0] != 1 or output.shape[1] < 6:
        raise ValueError(f"FastestDet gives [1, 5 + classes, h, w], not {output.shape}")
    height, width = output.shape[2:]
    cells = output[0].reshape(output.shape[1], -1)
    own = cells[0].astype(np.float32, copy=False) ** _SCORE_SHARE
    possible = np.flatnonzero(own >= decoder.score_threshold)  # in most cells no class could make up for it
    candidates = np.ascontiguousarray(cells[:, possible].T, np.float32)
    best, classes = best_class(candidates[:, 5:])
    scores = own[possible] * np.minimum(best, 1.0) ** (1 - _SCORE_SHARE)
    chosen = np.flatnonzero(scores >= decoder.score_threshold)
    boxes = _boxes(candidates[chosen, 1:5], possible[chosen], (height, width), input_size)
    found = (boxes, scores[chosen], classes[chosen])
    return suppress(found, score_threshold=decoder.score_threshold, iou_threshold=decoder.iou_threshold)


def _boxes(
    values: NDArray[np.float32], chosen: NDArray[np.int64], grid: tuple[int, int], input_size: tuple[int, int]
) -> NDArray[np.float32]:
    """Return the boxes of cells with these indices in a grid, float32 [n, 4], (x, y, width, height) in pixels."""
    height, width = grid
    corners = np.stack([chosen % width, chosen // width], axis=1)
    pixels = np.array(input_size[::-1], np.float32)
    centres = (corners + np.tanh(values[:, :2])) / (width, height) * pixels
    sizes = pixels / (1 + np.exp(-values[:, 2:]))
    return np.concatenate([centres - sizes / 2, sizes], axis=1).astype(np.float32)
