# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Boxes, masks and key points from the outputs of YOLO's exports: v5, v8, v11 (ultralytics) and YOLOX."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cacheinf_ros.engine.decoders.cells import Cells, is_count_of_boxes
from cacheinf_ros.engine.decoders.instances import Instances
from cacheinf_ros.engine.decoders.masks import mask_outlines
from cacheinf_ros.engine.decoders.named_outputs import Outputs, listed, output_named
from cacheinf_ros.engine.decoders.suppress import surviving
from cacheinf_ros.graph.decoder_configs import Yolo

Size = tuple[int, int]


def decode_yolo(outputs: Outputs, decoder: Yolo, input_size: Size) -> Instances:
    """Read the boxes, and keep the best of overlapping ones, with their masks or key points.

    Args:
        outputs: float32 [1, values, n] or [1, n, values], see :class:`Yolo`; with masks, their prototypes [1, m, h, w].
        decoder: how to read them.
        input_size: (height, width) of the model's input.

    Raises:
        ValueError: the shapes do not fit, it is open which output has the boxes, or none has the prototypes' name.
    """
    prototypes = _prototypes(outputs, decoder)
    values = _values(outputs, decoder, input_size)
    of_classes = _of_classes(values, prototypes, decoder)
    chosen, scores, classes = _best(values[of_classes], values[4] if decoder.objectness else None, decoder)
    boxes = _boxes(values[:4].T, chosen, decoder, input_size)
    kept = surviving(
        (boxes, scores, classes), score_threshold=decoder.score_threshold, iou_threshold=decoder.iou_threshold
    )
    rest = values[of_classes.stop :, chosen[kept]].T.astype(np.float32)
    return Instances(
        boxes=boxes[kept],
        scores=scores[kept],
        classes=classes[kept],
        key_points=_key_points(rest, decoder) if decoder.key_points else None,
        outlines=None if prototypes is None else mask_outlines(rest, prototypes, boxes[kept], input_size),
    )


def yolo_classes(outputs: Outputs, decoder: Yolo, input_size: Size) -> int:
    """Return the number of classes that the outputs have scores for; raises as :func:`decode_yolo`."""
    found = _of_classes(_values(outputs, decoder, input_size), _prototypes(outputs, decoder), decoder)
    return int(found.stop - found.start)


def _prototypes(outputs: Outputs, decoder: Yolo) -> NDArray[Any] | None:
    return output_named(outputs, decoder.masks)[0] if decoder.masks else None


def _of_classes(values: NDArray[Any], prototypes: NDArray[Any] | None, decoder: Yolo) -> slice:
    """Tell which of a box's values are the scores of classes."""
    first = 5 if decoder.objectness else 4
    extra = decoder.key_points * decoder.key_point_values if prototypes is None else len(prototypes)
    if len(values) <= first + extra:
        raise ValueError(f"{len(values)} values of a box leave none for its classes")
    return slice(first, len(values) - extra)


def _values(outputs: Outputs, decoder: Yolo, input_size: Size) -> NDArray[Any]:
    """Return the boxes' values as [values, n], of the only output that is [1, values, n] or [1, n, values].

    Other outputs of YOLO's exports are left out: prototypes, and the grids [1, channels, h, w] or [1, anchors, h, w,
    values] of which the boxes are made.
    """
    others = {name: value for name, value in outputs.items() if name != decoder.masks}
    found = [value for value in others.values() if value.ndim == 3 and value.shape[0] == 1]
    if not found:
        raise ValueError(f"none of the outputs is [1, values, n] or [1, n, values]: {listed(outputs)}")
    if len(found) > 1 or any(value.ndim < 4 for value in others.values() if value is not found[0]):
        raise ValueError(
            "decoder yolo needs one output with the boxes of all grids (docs/models.md), but any of these may be it: "
            f"{listed(others)}"
        )
    _check_masks(others, decoder, input_size)
    _check_layout(found[0].shape, decoder, input_size)
    return found[0][0] if decoder.values_first else found[0][0].T


def _check_masks(outputs: Outputs, decoder: Yolo, input_size: Size) -> None:
    """Refuse prototypes that the card does not name, because their coefficients would be taken for classes."""
    maps = [name for name, value in outputs.items() if value.shape[2:] == tuple(side // 4 for side in input_size)]
    if not decoder.masks and len(outputs) == 2 and maps:
        raise ValueError(f"the output {maps[0]!r} looks like the prototypes of masks: set masks: {maps[0]!r}")


def _check_layout(shape: tuple[int, ...], decoder: Yolo, input_size: Size) -> None:
    """Refuse what has as many values of a box as there are cells."""
    values, boxes = shape[1:] if decoder.values_first else shape[:0:-1]
    if values > boxes and is_count_of_boxes(values, input_size) and not is_count_of_boxes(boxes, input_size):
        raise ValueError(
            f"of {list(shape)}, {values} is the number of boxes for an input of {input_size}: "
            f"set values_first: {str(not decoder.values_first).lower()}"
        )


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
