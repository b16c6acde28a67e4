# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""YOLO's decoder, compared with one that reads one box after the other."""

from __future__ import annotations

from typing import Any

import cv2
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cacheinf_ros.engine.accuracy import box_iou
from cacheinf_ros.engine.decoders.yolo import decode_yolo
from cacheinf_ros.graph.decoder_configs import Yolo

SIZE = (64, 96)


def plain(values: np.ndarray, decoder: Yolo, extra: int) -> list[dict[str, Any]]:
    """Decode rows of (centre, size, ...) to boxes, best first, without those that overlap a better one."""
    found = []
    cells = [
        (x, y, stride) for stride in decoder.strides for y in range(SIZE[0] // stride) for x in range(SIZE[1] // stride)
    ]
    for i, row in enumerate(values.astype(np.float64)):
        x, y, width, height = row[:4]
        if cells:
            column, line, stride = cells[i]
            x, y = (x + column) * stride, (y + line) * stride
            width, height = np.exp(width) * stride, np.exp(height) * stride
        first = 5 if decoder.objectness else 4
        scores = row[first : len(row) - extra] * (row[4] if decoder.objectness else 1)
        if scores.max() >= decoder.score_threshold:
            box = (x - width / 2, y - height / 2, width, height)
            found.append(
                {"box": box, "score": scores.max(), "class": int(scores.argmax()), "rest": row[len(row) - extra :]}
            )
    found.sort(key=lambda each: -each["score"])
    kept: list[dict[str, Any]] = []
    for each in found:
        others = [other["box"] for other in kept if other["class"] == each["class"]]
        if not others or box_iou(np.array([each["box"]]), np.array(others)).max() <= decoder.iou_threshold:
            kept.append(each)
    return kept


def rows(rng: np.random.Generator, count: int, classes: int, extra: int, decoder: Yolo) -> np.ndarray:
    places = rng.uniform(0, 60, (count, 2)) if not decoder.strides else rng.normal(size=(count, 2))
    sizes = rng.uniform(4, 40, (count, 2)) if not decoder.strides else rng.normal(size=(count, 2))
    scores = rng.permutation(np.linspace(0.02, 0.98, count * classes)).reshape(count, classes)
    parts = [
        places,
        sizes,
        rng.uniform(0.5, 1, (count, int(decoder.objectness))),
        scores,
        rng.normal(size=(count, extra)),
    ]
    return np.concatenate(parts, axis=1).astype(np.float32)


DECODERS = {
    "v8": Yolo(),
    "v5": Yolo(values_first=False, objectness=True),
    "pose": Yolo(key_points=5),
    "flat pose": Yolo(key_points=4, key_point_values=2),
    "yolox": Yolo(values_first=False, objectness=True, strides=(16, 32)),
}


@pytest.mark.parametrize("kind", DECODERS)
@settings(max_examples=30)
@given(seed=st.integers(0, 10_000), classes=st.integers(1, 4), threshold=st.sampled_from([0.3, 0.7]))
def test_boxes_are_those_of_a_plain_decoder(kind: str, seed: int, classes: int, threshold: float) -> None:
    decoder = DECODERS[kind].changed(score_threshold=threshold)
    extra = decoder.key_points * decoder.key_point_values
    count = 24 + 6 if decoder.strides else 40
    values = rows(np.random.default_rng(seed), count, classes, extra, decoder)
    output = (values.T if decoder.values_first else values)[None]
    found = decode_yolo({"y": np.ascontiguousarray(output)}, decoder, SIZE)
    expected = plain(values, decoder, extra)
    assert len(found.boxes) == len(expected)
    for i, each in enumerate(expected):
        assert found.boxes[i] == pytest.approx(each["box"], abs=1e-3)
        assert found.scores[i] == pytest.approx(each["score"], abs=1e-5) and found.classes[i] == each["class"]
        if found.key_points is not None:
            points = each["rest"].reshape(decoder.key_points, -1)
            assert found.key_points[i, :, : points.shape[1]] == pytest.approx(points, abs=1e-5)
            assert points.shape[1] == 3 or (found.key_points[i, :, 2] == 1).all()


def filled(outlines: tuple[np.ndarray, ...]) -> np.ndarray:
    """Return the mask of the pixels whose centres are on or within the polygons."""
    mask = np.zeros(SIZE, np.uint8)
    for part in outlines:
        cv2.fillPoly(mask, [np.round(part - 0.5).astype(np.int32)], 1)
    return mask.astype(bool)


@given(seed=st.integers(0, 10_000))
def test_masks_are_those_of_prototypes_made_large_and_cut_by_the_box(seed: int) -> None:
    rng = np.random.default_rng(seed)
    decoder = Yolo(masks="p", score_threshold=0.5)
    values = rows(rng, 12, 2, 6, decoder)
    prototypes = cv2.GaussianBlur(rng.normal(size=(16, 24, 6)), (0, 0), 3).transpose(2, 0, 1).astype(np.float32)
    found = decode_yolo({"y": values.T[None], "p": prototypes[None]}, decoder, SIZE)
    expected = plain(values, decoder, 6)
    assert found.outlines is not None and len(found.outlines) == len(expected)
    for outlines, each in zip(found.outlines, expected, strict=True):
        logits = np.tensordot(each["rest"].astype(np.float32), prototypes, 1)
        large = cv2.resize(logits, SIZE[::-1], interpolation=cv2.INTER_LINEAR)
        x, y, width, height = each["box"]
        columns, lines = np.arange(SIZE[1]), np.arange(SIZE[0])
        inside = ((columns >= x) & (columns < x + width))[None] & ((lines >= y) & (lines < y + height))[:, None]
        mask = (large > 0) & inside
        ours = filled(outlines)
        holes = ours & ~mask  # outlines go around them
        assert not (mask & ~ours).any()
        count, _ = cv2.connectedComponents((~mask).astype(np.uint8), connectivity=4)
        assert count > 2 or not holes.any()


def test_a_box_beside_the_picture_has_no_mask() -> None:
    values = np.array([[-50, -50, 10, 10, 0.9, 1.0]], np.float32)
    found = decode_yolo({"y": values.T[None], "p": np.ones((1, 1, 16, 24), np.float32)}, Yolo(masks="p"), SIZE)
    assert found.outlines == ((),)


def test_shapes_that_do_not_fit_are_named() -> None:
    with pytest.raises(ValueError, match="none for its classes"):
        decode_yolo({"y": np.zeros((1, 19, 5), np.float32)}, Yolo(key_points=5), SIZE)
    with pytest.raises(ValueError, match="none of the outputs"):
        decode_yolo({"y": np.zeros((1, 19), np.float32)}, Yolo(), SIZE)
    with pytest.raises(ValueError, match="24 cells, not 7"):
        decode_yolo({"y": np.ones((1, 6, 7), np.float32)}, Yolo(strides=(16,)), SIZE)


def test_one_of_several_outputs_is_not_taken_for_all_boxes() -> None:
    """The first of YuNet's twelve outputs was read, and its scores taken for places."""
    shapes = {"cls_8": (1, 96, 1), "cls_16": (1, 24, 1), "bbox_8": (1, 96, 4), "bbox_16": (1, 24, 4)}
    outputs = {name: np.ones(shape, np.float32) for name, shape in shapes.items()}
    with pytest.raises(ValueError, match=r"needs one output .*: cls_8 \[1, 96, 1\], .* bbox_16 \[1, 24, 4\]$"):
        decode_yolo(outputs, Yolo(values_first=False), SIZE)
    suppressed = {"boxes": (1, 7, 4), "scores": (1, 7), "classes": (1, 7)}
    with pytest.raises(ValueError, match=r"needs one output .*: boxes \[1, 7, 4\], scores"):
        decode_yolo({name: np.ones(shape, np.float32) for name, shape in suppressed.items()}, Yolo(), SIZE)


@pytest.mark.parametrize("is_first", [True, False])
@pytest.mark.parametrize("grid", [(1, 3, 8, 12, 7), (1, 66, 8, 12)])
def test_the_grids_beside_the_boxes_are_left_out(grid: tuple[int, ...], is_first: bool) -> None:
    """YOLOv5 exports them as [1, anchors, h, w, values], v8 as [1, channels, h, w]."""
    values = np.array([[20, 20, 10, 10, 0.9, 1.0, 0.0]], np.float32)[None]
    grids = {name: np.ones(grid, np.float32) for name in "abc"}
    outputs = {**grids, "y": values} if is_first else {"y": values, **grids}
    found = decode_yolo(outputs, DECODERS["v5"], SIZE)
    assert found.boxes.tolist() == [[15, 15, 10, 10]]


def test_masks_that_the_card_does_not_name_are_not_taken_for_classes() -> None:
    outputs = {"y": np.ones((1, 9, 126), np.float32), "p": np.ones((1, 3, 16, 24), np.float32)}
    with pytest.raises(ValueError, match="set masks: 'p'"):
        decode_yolo(outputs, Yolo(), SIZE)
    assert decode_yolo(outputs, Yolo(masks="p"), SIZE).outlines is not None
    with pytest.raises(ValueError, match=r"no output named 'q'; there are: y \[1, 9, 126\], p"):
        decode_yolo(outputs, Yolo(masks="q"), SIZE)


@pytest.mark.parametrize("values_first", [True, False])
def test_boxes_are_not_taken_for_values(values_first: bool) -> None:
    """An input of 64 x 96 has 96 + 24 + 6 cells at strides 8, 16 and 32."""
    output = np.ones((1, 126, 6) if values_first else (1, 6, 126), np.float32)
    with pytest.raises(
        ValueError, match=f"126 is the number of boxes .*: set values_first: {not values_first}".lower()
    ):
        decode_yolo({"y": output}, Yolo(values_first=values_first), SIZE)
    assert len(decode_yolo({"y": output}, Yolo(values_first=not values_first), SIZE).boxes) == 1
