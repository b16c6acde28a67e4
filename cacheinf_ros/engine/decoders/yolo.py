# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Boxes, masks and key points from the outputs of YOLO's exports: v5, v8, v11 (ultralytics) and YOLOX."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cacheinf_ros.engine.decoders.cells import Cells
from cacheinf_ros.engine.decoders.instances import Instances
from cacheinf_ros.engine.decoders.masks import mask_outlines
from cacheinf_ros.engine.decoders.suppress import surviving
from cacheinf_ros.graph.decoder_configs import Yolo

Size = tuple[int, int]


def decode_yolo(outputs: dict[str, NDArray[Any]], decoder: Yolo, input_size: Size) -> Instances:
    """Read the boxes, and keep the best of overlapping ones, with their masks or key points.

    Args:
        outputs: float32 [1, values, n] or [1, n, values], see :class:`Yolo`; with masks, their prototypes [1, m, h, w].
        decoder: how to read them.
        input_size: (height, width) of the model's input.

    Raises:
        ValueError: the shapes do not fit.
        KeyError: there is no output of the prototypes' name.
    """
    prototypes = outputs[decoder.masks][0] if decoder.masks else None
    values = _values(outputs, decoder)
    first = 5 if decoder.objectness else 4
    extra = decoder.key_points * decoder.key_point_values if prototypes is None else len(prototypes)
    if len(values) <= first + extra:
        raise ValueError(f"{len(values)} values of a box leave none for its classes")
    classes_end = len(values) - extra
    chosen, scores, classes = _best(values[first:classes_end], values[4] if decoder.objectness else None, decoder)
    boxes = _boxes(values[:4].T, chosen, decoder, input_size)
    kept = surviving(
        (boxes, scores, classes), score_threshold=decoder.score_threshold, iou_threshold=decoder.iou_threshold
    )
    rest = values[classes_end:, chosen[kept]].T.astype(np.float32)
    return Instances(
        boxes=boxes[kept],
        scores=scores[kept],
        classes=classes[kept],
        key_points=_key_points(rest, decoder) if decoder.key_points else None,
        outlines=None if prototypes is None else mask_outlines(rest, prototypes, boxes[kept], input_size),
    )


def _values(outputs: dict[str, NDArray[Any]], decoder: Yolo) -> NDArray[Any]:
    """Return the first output with three dimensions that is not the prototypes, as [values, n]."""
    output = next((value for name, value in outputs.items() if name != decoder.masks and value.ndim == 3), None)
    if output is None:
        raise ValueError("none of the outputs is [1, values, n] or [1, n, values]")
    return output[0] if decoder.values_first else output[0].T


def _best(
    scores: NDArray[Any], objectness: NDArray[Any] | None, decoder: Yolo
) -> tuple[NDArray[np.int64], NDArray[np.float32], NDArray[np.int64]]:
    """Find the cells whose best class reaches the threshold, with its score and class; scores are [classes, n]."""
    if objectness is None:
        chosen = np.flatnonzero(scores.max(0) >= decoder.score_threshold)
        best = scores[:, chosen].astype(np.float32)
    else:  # no product is larger than either factor
        chosen = np.flatnonzero(objectness >= decoder.score_threshold)
        best = scores[:, chosen].astype(np.float32) * objectness[chosen].astype(np.float32)
        enough = best.max(0) >= decoder.score_threshold
        chosen, best = chosen[enough], best[:, enough]
    return chosen, best.max(0), best.argmax(0)


def _boxes(boxes: NDArray[Any], chosen: NDArray[np.int64], decoder: Yolo, input_size: Size) -> NDArray[np.float32]:
    """Return boxes, float32 [chosen, 4], (x, y, width, height) in pixels of the input, of centres and sizes [n, 4]."""
    values = boxes[chosen].astype(np.float32)
    centres, sizes = values[:, :2], values[:, 2:]
    if decoder.strides:
        cells = Cells.of(decoder.strides, input_size)
        if len(cells.strides) != len(boxes):
            raise ValueError(f"an input of {input_size} has {len(cells.strides)} cells, not {len(boxes)}")
        strides = cells.strides[chosen, None]
        centres, sizes = (centres + cells.corners[chosen]) * strides, np.exp(sizes) * strides
    return np.concatenate([centres - sizes / 2, sizes], axis=1).astype(np.float32)


def _key_points(values: NDArray[np.float32], decoder: Yolo) -> NDArray[np.float32]:
    """Return the key points, float32 [n, points, 3]; points without a score of their own get the score 1."""
    points = values.reshape(len(values), decoder.key_points, decoder.key_point_values)
    if decoder.key_point_values == 3:
        return points
    return np.concatenate([points, np.ones((*points.shape[:2], 1), np.float32)], axis=2)
