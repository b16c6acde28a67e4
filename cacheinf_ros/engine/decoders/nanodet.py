# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Boxes from the outputs of NanoDet and NanoDet-Plus (github.com/RangiLyu/nanodet), without anchors.

The distance of each side from the cell's point is the mean of a distribution over whole strides (generalised focal
loss, arXiv 2006.04388).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cacheinf_ros.engine.decoders.cells import Cells, grid_size
from cacheinf_ros.engine.decoders.named_outputs import Outputs, listed
from cacheinf_ros.engine.decoders.probabilities import softmax
from cacheinf_ros.engine.decoders.suppress import Found, best_class, suppress
from cacheinf_ros.graph.decoder_configs import NanoDet

Size = tuple[int, int]


def decode_nanodet(outputs: Outputs, decoder: NanoDet, input_size: Size) -> Found:
    """Read every cell's box, and keep the best of overlapping ones.

    Args:
        outputs: for each grid, scores [1, n, classes] and logits of distances [1, n, 4 * bins] (left, top, right,
            bottom), in any order; or one output with both for all grids, [1, n, classes + 4 * bins].
        decoder: how to read them.
        input_size: (height, width) of the model's input.

    Raises:
        ValueError: the shapes do not fit the grids.
    """
    grids = _grids(outputs, decoder, input_size)
    likely = [np.flatnonzero(scores.max(1) >= decoder.score_threshold) for scores, _ in grids]
    best, classes = best_class(np.concatenate([scores[rows] for (scores, _), rows in zip(grids, likely, strict=True)]))
    logits = np.concatenate([logits[rows] for (_, logits), rows in zip(grids, likely, strict=True)])
    first = np.cumsum([0, *(len(scores) for scores, _ in grids)])
    chosen = np.concatenate([rows + start for rows, start in zip(likely, first[:-1], strict=True)])
    found = (_boxes(logits.astype(np.float32), chosen, decoder, input_size), best, classes)
    return suppress(found, score_threshold=decoder.score_threshold, iou_threshold=decoder.iou_threshold)


def nanodet_classes(outputs: Outputs, decoder: NanoDet, input_size: Size) -> int:
    """Return the number of classes that the outputs have scores for; raises as :func:`decode_nanodet`."""
    return int(_grids(outputs, decoder, input_size)[0][0].shape[1])


def _grids(outputs: Outputs, decoder: NanoDet, input_size: Size) -> list[tuple[NDArray[Any], NDArray[Any]]]:
    """Return scores [n, classes] and logits [n, 4 * bins] of each grid, or of all grids where there is one output."""
    counts = [int(np.prod(grid_size(stride, input_size))) for stride in decoder.strides]
    width = 4 * decoder.bins
    rows = [output[0] for output in outputs.values() if output.ndim == 3 and output.shape[0] == 1]
    if len(rows) == len(outputs) == 1 and len(rows[0]) == sum(counts) and rows[0].shape[1] > width:
        return [(rows[0][:, :-width], rows[0][:, -width:])]
    pairs = [[each for each in rows if len(each) == count] for count in counts]
    is_complete = len(rows) == len(outputs) == 2 * len(counts)
    if not is_complete or any(len(pair) != 2 or width not in (pair[0].shape[1], pair[1].shape[1]) for pair in pairs):
        raise ValueError(
            f"an input of {input_size} has grids of {counts} cells: the outputs are [1, cells, classes] and "
            f"[1, cells, {width}] of each, or one [1, {sum(counts)}, classes + {width}], not {listed(outputs)}"
        )
    return [(pair[0], pair[1]) if pair[1].shape[1] == width else (pair[1], pair[0]) for pair in pairs]


def _boxes(
    logits: NDArray[np.float32], chosen: NDArray[np.int64], decoder: NanoDet, input_size: Size
) -> NDArray[np.float32]:
    """Return the chosen cells' boxes, float32 [chosen, 4], (x, y, width, height) in pixels of the input."""
    cells = Cells.of(decoder.strides, input_size)
    strides = cells.strides[chosen, None]
    shares = softmax(logits.reshape(-1, 4, decoder.bins))
    distances = (shares @ np.arange(decoder.bins, dtype=np.float32)) * strides
    points = (cells.corners[chosen] + decoder.cell_center) * strides
    return np.concatenate([points - distances[:, :2], distances[:, :2] + distances[:, 2:]], axis=1).astype(np.float32)
