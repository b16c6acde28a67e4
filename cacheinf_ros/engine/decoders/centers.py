# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Boxes from the output of a detector that marks centres (CenterNet, "Objects as Points", 2019)."""

from __future__ import annotations

from itertools import product

import numpy as np
from numpy.typing import NDArray

from cacheinf_ros.engine.decoders.suppress import Found
from cacheinf_ros.errors import EngineError


def decode_centers(output: NDArray[np.float32], *, stride: int, score_threshold: float) -> Found:
    """Read a box at each peak of a class's heat map.

    Args:
        output: float32 [1, classes + 4, h, w]: per class the heat map (logits); then x and y of the centre within
            its cell, as fractions of the stride; then the logarithms of width and height over the stride.
        stride: pixels of the model's input per cell.
        score_threshold: smallest score (sigmoid of the heat map) of a detection, 0 to 1.

    Returns:
        boxes: float32 [n, 4], (x, y, width, height) in pixels of the model's input; x, y the left upper corner.
        scores: float32 [n], best first.
        classes: int64 [n].

    Raises:
        EngineError: the output has another shape.
    """
    if output.ndim != 4 or output.shape[0] != 1 or output.shape[1] < 5:
        raise EngineError(
            f"an output of shape {output.shape} holds no centres; they take [1, classes + 4, h, w]: "
            "choose another decoder in the model card"
        )
    heat, places = output[0, :-4], output[0, -4:]
    # where the score reaches the threshold; scores of clearly empty cells are not worth an exponential
    with np.errstate(divide="ignore"):
        candidates = heat >= np.log(score_threshold) - np.log1p(-score_threshold)
    classes, rows, columns = np.nonzero(candidates & _peaks(heat))
    scores = 1 / (1 + np.exp(-heat[classes, rows, columns]))
    best_first = np.argsort(-scores, kind="stable")
    classes, rows, columns = classes[best_first], rows[best_first], columns[best_first]
    boxes = _boxes(places[:, rows, columns], rows, columns, stride)
    return boxes, scores[best_first].astype(np.float32), classes.astype(np.int64)


def _peaks(heat: NDArray[np.float32]) -> NDArray[np.bool_]:
    """Tell which cells are greatest among their 3 x 3, bool [classes, h, w]; of equal neighbours only the first."""
    height, width = heat.shape[1:]
    padded = np.full((len(heat), height + 2, width + 2), -np.inf, heat.dtype)
    padded[:, 1:-1, 1:-1] = heat
    peaks = np.ones(heat.shape, np.bool_)
    for row, column in product(range(3), repeat=2):
        neighbour = padded[:, row : row + height, column : column + width]
        if (row, column) < (1, 1):
            peaks &= heat > neighbour
        elif (row, column) > (1, 1):
            peaks &= heat >= neighbour
    return peaks


def _boxes(
    places: NDArray[np.float32], rows: NDArray[np.int64], columns: NDArray[np.int64], stride: int
) -> NDArray[np.float32]:
    """Return boxes, float32 [n, 4], from values [4, n]: (offset x, offset y, log width, log height)."""
    centres = np.stack([columns, rows], axis=1) + places[:2].T
    sizes = np.exp(places[2:].T)
    return np.asarray(np.concatenate([centres - sizes / 2, sizes], axis=1) * stride, np.float32)
