# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Recognise families of detectors by the shapes of their outputs, whatever they were trained on.

The families are YOLO, YOLOX, NanoDet, PicoDet, DETR, YuNet and SCRFD. Each function returns what a graph of its family
says of the decoder, as fields of a model card's ``decoder`` and, where they are known, ``labels``: a list, or the name
of a list that comes with the package. None: the graph is of another family.
"""

from __future__ import annotations

from typing import Any

from cacheinf_ros.graph.export_notes import ExportNotes
from cacheinf_ros.graph.ir import (
    ChannelSoftmax,
    Conv,
    Convert,
    Elementwise,
    Global,
    Graph,
    Operator,
    Pointwise,
    Pool,
    Resample,
    is_map_without_channels,
)

Shape = tuple[int, ...]

_COCO_CLASSES = 80
_COCO_KEY_POINTS = (17, 3)
_YOLO_TASKS = ("", "detect", "segment", "pose")  # not oriented boxes, which have an angle behind the classes
_YOLO_STRIDES = ((8, 16, 32), (8, 16, 32, 64), (4, 8, 16, 32))
_NANODET_STRIDES, _NANODET_PLUS_STRIDES = (8, 16, 32), (8, 16, 32, 64)
_PICODET_STRIDES = (8, 16, 32, 64)
_FACE_STRIDES, _FACE_WIDTHS = (8, 16, 32), (4, 2 * 5)  # values of a box, and of five key points
_NANODET_LOGITS = 4 * 8
_NANODET_WIDTHS = (_COCO_CLASSES, _NANODET_LOGITS)
_ANCHORS = 3  # of each of YOLOv5's cells


def yolo_head(graph: Graph, notes: ExportNotes) -> dict[str, Any] | None:
    """Recognise YOLO by [1, 4 + classes, n] (v8, v11) or [1, 3 n, 5 + classes] (v5).

    There may be as many values more as masks' prototypes [1, masks, h, w] in a second output, or the values of key
    points.
    """
    shapes = [(name, graph.tensors[tensor].shape) for name, tensor in graph.outputs]
    if not 1 <= len(shapes) <= 2 or len(shapes[0][1]) != 3 or notes.task not in _YOLO_TASKS:
        return None
    values_first = _layout(shapes[0][1], graph)
    if values_first is None or _is_map(shapes[0][1], graph):
        return None
    decoder: dict[str, Any] = {"values_first": values_first, "objectness": not values_first}
    classes = shapes[0][1][1 if values_first else 2] - (4 if values_first else 5)
    if len(shapes) == 2:
        if len(shapes[1][1]) != 4 or shapes[1][1][0] != 1:
            return None
        decoder["masks"] = shapes[1][0]
        classes -= shapes[1][1][1]
    elif values_first:
        points = _key_points(classes, notes)
        if points is not None:
            decoder |= {"key_points": points[0], "key_point_values": points[1]}
            classes -= points[0] * points[1]
    labels = _labels(classes, notes, is_pose=bool(decoder.get("key_points")))
    return {**decoder, "labels": labels} if classes > 0 else None


def yolox_head(graph: Graph) -> dict[str, Any] | None:
    """Recognise YOLOX by [1, n, 5 + classes] straight from convolutions: boxes are still relative to their cells."""
    shape = _only_shape(graph)
    if shape is None or shape[1] not in _counts(graph, (_YOLO_STRIDES[0],)) or shape[2] <= 5 or not _is_raw(graph):
        return None
    if shape[2] == _COCO_CLASSES + _NANODET_LOGITS or _is_map(shape, graph):  # the former: NanoDet-Plus
        return None
    labels = "coco" if shape[2] == 5 + _COCO_CLASSES else None
    return {"strides": _YOLO_STRIDES[0], "labels": labels}


def yolo_classes(graph: Graph, notes: ExportNotes) -> dict[str, Any] | None:
    """Recognise a classifier by the notes of ultralytics, and by its only output, [1, classes]."""
    shapes = [graph.tensors[tensor].shape for _, tensor in graph.outputs]
    if notes.task != "classify" or shapes != [(1, len(notes.labels))]:
        return None
    return {"softmax": not gives_probabilities(graph), "labels": notes.labels}


def nanodet_head(graph: Graph) -> dict[str, Any] | None:
    """Recognise NanoDet by three grids, each [1, n, 80] and [1, n, 32], or by Plus' four together, [1, n, 80 + 32]."""
    cells = _cells(graph, _NANODET_PLUS_STRIDES)
    if _only_shape(graph) == (1, sum(cells), _COCO_CLASSES + _NANODET_LOGITS):
        return {"strides": _NANODET_PLUS_STRIDES, "cell_center": 0.0, "labels": "coco"}
    return {"labels": "coco"} if _has_grids(graph, _NANODET_STRIDES, _NANODET_WIDTHS) else None


def picodet_head(graph: Graph) -> dict[str, Any] | None:
    """Recognise PicoDet as NanoDet, with a fourth grid."""
    return {"labels": "coco"} if _has_grids(graph, _PICODET_STRIDES, _NANODET_WIDTHS) else None


def detr_head(graph: Graph, queries: int, classes: int) -> dict[str, Any] | None:
    """Recognise DETR by logits [1, queries, classes] and boxes [1, queries, 4]."""
    shapes = {name: graph.tensors[tensor].shape for name, tensor in graph.outputs}
    if len(shapes) != 2 or any(len(shape) != 3 for shape in shapes.values()):
        return None
    logits, boxes = sorted(shapes, key=lambda name: -shapes[name][2])
    if shapes[logits] != (1, queries, classes) or shapes[boxes] != (1, queries, 4):
        return None
    return {"scores": logits, "boxes": boxes}


def yunet_head(graph: Graph) -> dict[str, Any] | None:
    """Recognise YuNet by three grids, each with two scores, a box and five key points of each cell."""
    return {} if _has_grids(graph, _FACE_STRIDES, (1, 1, *_FACE_WIDTHS)) else None


def scrfd_head(graph: Graph) -> dict[str, Any] | None:
    """Recognise SCRFD by three grids, each with a score, a box and possibly five key points for two boxes of a cell.

    InsightFace's own files have no dimension for the batch.
    """
    for batch in ((1,), ()):
        if _has_grids(graph, _FACE_STRIDES, (1, *_FACE_WIDTHS), anchors=2, batch=batch):
            return {}
        if _has_grids(graph, _FACE_STRIDES, (1, _FACE_WIDTHS[0]), anchors=2, batch=batch):
            return {"key_points": 0}
    return None


def rtdetr_head(graph: Graph) -> dict[str, Any] | None:
    """Recognise RT-DETR as DETR; other detectors give as many probabilities, so its output must be called logits."""
    decoder = detr_head(graph, 300, _COCO_CLASSES)
    return decoder if decoder is not None and "logits" in decoder["scores"] else None


def _has_grids(
    graph: Graph, strides: tuple[int, ...], widths: tuple[int, ...], anchors: int = 1, batch: Shape = (1,)
) -> bool:
    """Tell whether the outputs are, for each grid of cells, one [1, cells * anchors, width] of each width."""
    shapes = sorted(graph.tensors[tensor].shape for _, tensor in graph.outputs)
    return shapes == sorted((*batch, anchors * count, width) for count in _cells(graph, strides) for width in widths)


def _layout(shape: Shape, graph: Graph) -> bool | None:
    """Tell whether the values come before the boxes; None: there are not as many boxes as YOLO gives."""
    counts = _counts(graph, _YOLO_STRIDES)
    if shape[2] in counts and shape[1] > 4:
        return True
    return False if shape[1] in {_ANCHORS * count for count in counts} and shape[2] > 5 else None


def _is_map(shape: Shape, graph: Graph) -> bool:
    return is_map_without_channels(shape, graph.tensors[graph.input].size)


def _counts(graph: Graph, candidates: tuple[tuple[int, ...], ...]) -> set[int]:
    return {sum(_cells(graph, strides)) for strides in candidates}


def _cells(graph: Graph, strides: tuple[int, ...]) -> list[int]:
    height, width = graph.tensors[graph.input].size
    return [-(-height // stride) * -(-width // stride) for stride in strides]


def _only_shape(graph: Graph) -> Shape | None:
    """Return the shape of the only output, if it has three dimensions; otherwise None."""
    shapes = [graph.tensors[tensor].shape for _, tensor in graph.outputs]
    return shapes[0] if len(shapes) == 1 and len(shapes[0]) == 3 else None


def _key_points(values: int, notes: ExportNotes) -> tuple[int, int] | None:
    """Return the number of key points, and of values of each; None: there are none.

    Where the file does not say, 52 values are a person's pose in COCO.
    """
    if notes.task:
        return notes.key_point_shape if notes.task == "pose" else None
    return _COCO_KEY_POINTS if values == 1 + _COCO_KEY_POINTS[0] * _COCO_KEY_POINTS[1] else None


def _labels(classes: int, notes: ExportNotes, *, is_pose: bool) -> Any:
    if len(notes.labels) == classes:
        return list(notes.labels)
    if is_pose and classes == 1:
        return ["person"]
    return "coco" if classes == _COCO_CLASSES else None


def gives_probabilities(graph: Graph) -> bool:
    """Tell whether the only output is a vector of several values that a softmax made; rounding may follow it."""
    if len(graph.outputs) != 1:
        return False
    name, made_by = graph.outputs[0][1], {operator.output: operator for operator in graph.operators}
    if len(shape := graph.tensors[name].shape) != 2 or shape[0] != 1 or shape[1] < 2:
        return False
    while (operator := made_by.get(name)) is not None:
        if isinstance(operator, ChannelSoftmax):
            return not operator.log
        call = _called(operator)
        if call in _SOFTMAX:
            return True
        if len(operator.inputs) != 1 or not (isinstance(operator, Convert) or call in _KEEPING):
            return False
        (name,) = operator.inputs
    return False


def _called(operator: Operator) -> str:
    if isinstance(operator, Global):
        return operator.target.split(".")[1]
    return operator.call.__name__.partition(".")[0] if isinstance(operator, Pointwise) else ""


def _is_raw(graph: Graph) -> bool:
    """Tell whether nothing but scores' activations is computed between the last convolutions and the output."""
    made_by = {operator.output: operator for operator in graph.operators}
    waiting = [tensor for _, tensor in graph.outputs]
    while waiting:
        operator = made_by.get(waiting.pop())
        if operator is None or isinstance(operator, (Pool, Resample)):
            return False
        if isinstance(operator, Global) and _called(operator) not in _MOVES:
            return False
        if isinstance(operator, Elementwise) and operator.combine is not None:
            return False
        if not isinstance(operator, Conv):
            waiting += operator.inputs
    return True


_MOVES = {"cat", "permute", "reshape", "transpose", "view"}
_SOFTMAX = {"softmax", "_softmax"}
_KEEPING = _MOVES | {"clone", "fake_quantize_per_tensor_affine", "flatten", "squeeze", "unsqueeze"}
