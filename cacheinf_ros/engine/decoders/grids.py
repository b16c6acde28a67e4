# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Boxes and key points from heads that give each grid of cells outputs of its own, such as YuNet's and SCRFD's.

The arithmetic is that of OpenCV's FaceDetectorYN for YuNet (github.com/ShiqiYu/libfacedetection) and of InsightFace for
SCRFD (arXiv 2105.04714).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cacheinf_ros.engine.decoders.cells import Cells, grid_size
from cacheinf_ros.engine.decoders.instances import Instances
from cacheinf_ros.engine.decoders.named_outputs import Outputs, listed
from cacheinf_ros.engine.decoders.probabilities import sigmoid
from cacheinf_ros.engine.decoders.suppress import best_class, surviving
from cacheinf_ros.graph.decoder_configs import Grids

Size = tuple[int, int]
_BOX_VALUES = 4


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _GridOutputs:
    """The outputs of one grid, with a row for each box: cell by cell, and within a cell anchor by anchor.

    Attributes:
        scores: [n, classes]; with objectness also [n, 1], in any order.
        boxes: [n, 4].
        points: [n, 2 * key points], or None.
        stride: pixels of the model's input per cell.
        anchors: boxes of each cell.
    """

    scores: list[NDArray[Any]]
    boxes: NDArray[Any]
    points: NDArray[Any] | None
    stride: int
    anchors: int


def decode_grids(outputs: Outputs, decoder: Grids, input_size: Size) -> Instances:
    """Read the boxes of all grids, and keep the best of overlapping ones, with their key points.

    Args:
        outputs: of each grid scores, boxes and key points as :class:`Grids` says, [1, n, values] or [n, values] with n
            the cells times the anchors, in any order.
        decoder: how to read them.
        input_size: (height, width) of the model's input.

    Raises:
        ValueError: the shapes do not fit the grids, or leave open which output is which.
    """
    read = [_read(grid, decoder, input_size) for grid in _by_grid(outputs, decoder, input_size)]
    boxes, scores, classes, points = (np.concatenate(parts) for parts in zip(*read, strict=True))
    kept = surviving(
        (boxes, scores, classes), score_threshold=decoder.score_threshold, iou_threshold=decoder.iou_threshold
    )
    return Instances(
        boxes=boxes[kept],
        scores=scores[kept],
        classes=classes[kept],
        key_points=points[kept] if decoder.key_points else None,
    )


def grids_classes(outputs: Outputs, decoder: Grids, input_size: Size) -> int:
    """Return the number of classes that the outputs have scores for; raises as :func:`decode_grids`."""
    return max(int(scores.shape[1]) for scores in _by_grid(outputs, decoder, input_size)[0].scores)


def _read(grid: _GridOutputs, decoder: Grids, input_size: Size) -> tuple[NDArray[Any], ...]:
    """Return boxes, scores, classes and key points of the rows whose best class reaches the threshold."""
    best, classes = best_class(_scores(grid, decoder))
    chosen = np.flatnonzero(best >= decoder.score_threshold)
    corners = Cells.of((grid.stride,), input_size).corners[chosen // grid.anchors] + decoder.cell_center
    values = grid.boxes[chosen].astype(np.float32)
    if decoder.distances:
        left_top, sizes = corners - values[:, :2], values[:, :2] + values[:, 2:]
    else:
        sizes = np.exp(values[:, 2:])
        left_top = corners + values[:, :2] - sizes / 2
    boxes = np.concatenate([left_top, sizes], axis=1) * grid.stride
    points = np.ones((len(chosen), decoder.key_points, 3), np.float32)
    if grid.points is not None:
        offsets = grid.points[chosen].astype(np.float32).reshape(len(chosen), decoder.key_points, 2)
        points[:, :, :2] = (offsets + corners[:, None]) * grid.stride
    return boxes.astype(np.float32), best[chosen], classes[chosen], points


def _scores(grid: _GridOutputs, decoder: Grids) -> NDArray[np.float32]:
    """Return the scores of classes, [n, classes]; of two outputs, the geometric mean."""
    given = [each.astype(np.float32) for each in grid.scores]
    scores = [sigmoid(each) if decoder.activation == "sigmoid" else each for each in given]
    if len(scores) == 1:
        return scores[0]
    first, second = (np.clip(each, 0, 1) for each in scores)
    return np.sqrt(first * second)


def _by_grid(outputs: Outputs, decoder: Grids, input_size: Size) -> list[_GridOutputs]:
    counts = [int(np.prod(grid_size(stride, input_size))) for stride in decoder.strides]
    rows = [output[0] if output.ndim == 3 and output.shape[0] == 1 else output for output in outputs.values()]
    lengths = {len(each) for each in rows if each.ndim == 2}
    anchors = sum(lengths) // sum(counts)
    fits = all(each.ndim == 2 for each in rows) and lengths == {anchors * count for count in counts} != {0}
    of_grids = [[each for each in rows if len(each) == anchors * count] for count in counts] if fits else []
    grids = [
        _told_apart(of_grid, decoder, stride, anchors)
        for of_grid, stride in zip(of_grids, decoder.strides, strict=False)
    ]
    found = [grid for grid in grids if grid is not None]
    if len(found) == len(counts):
        return found
    if len(set(counts)) < len(counts):
        raise ValueError(
            f"an input of {input_size} has grids of {counts} cells: those of equal size are not told apart"
        )
    points = f", key points [1, n, {2 * decoder.key_points}]" if decoder.key_points else ""
    objectness = " and [1, n, 1]" if decoder.objectness else ""
    raise ValueError(
        f"an input of {input_size} has grids of {counts} cells: each has, with n a multiple of its cells, boxes "
        f"[1, n, {_BOX_VALUES}]{points} and scores [1, n, classes]{objectness}, not {listed(outputs)}"
    )


def _told_apart(rows: list[NDArray[Any]], decoder: Grids, stride: int, anchors: int) -> _GridOutputs | None:
    """Tell scores, boxes and key points of one grid by their widths; None where that is not possible."""
    width = 2 * decoder.key_points
    boxes = [each for each in rows if each.shape[1] == _BOX_VALUES]
    points = [each for each in rows if each.shape[1] == width]
    scores = [each for each in rows if each.shape[1] not in (_BOX_VALUES, width)]
    if len(boxes) != 1 or len(points) != (width > 0) or len(scores) != 1 + decoder.objectness:
        return None
    if decoder.objectness and 1 not in (scores[0].shape[1], scores[1].shape[1]):
        return None
    return _GridOutputs(
        scores=scores, boxes=boxes[0], points=points[0] if points else None, stride=stride, anchors=anchors
    )
