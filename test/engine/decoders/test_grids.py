# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The decoder of heads that are split by grid, compared with one that reads one row after the other."""

from __future__ import annotations

from math import exp, sqrt
from pathlib import Path

import cv2
import numpy as np
import pytest
import torch
import yolo
from hypothesis import given
from hypothesis import strategies as st

from cacheinf_ros.engine.decoders.grids import decode_grids
from cacheinf_ros.graph.decoder_configs import Grids

SIZE = (48, 64)
STRIDES = (16, 32)
CELLS = {16: (3, 4), 32: (2, 2)}


def values_of(seed: int, widths: dict[str, int], anchors: int) -> dict[str, np.ndarray]:
    """Return outputs ``NAME_STRIDE``, [1, n, width], in any order: scores between 0 and 1, others around 0."""
    rng = np.random.default_rng(seed)
    outputs = {}
    for stride, (rows, columns) in CELLS.items():
        for name, width in widths.items():
            shape = (1, rows * columns * anchors, width)
            values = rng.random(shape) if name in ("scores", "objectness") else rng.normal(size=shape)
            outputs[f"{name}_{stride}"] = values.astype(np.float32)
    names = list(outputs)
    return {names[i]: outputs[names[i]] for i in rng.permutation(len(names))}


def plain(outputs: dict[str, np.ndarray], decoder: Grids, anchors: int) -> list[tuple[float, ...]]:
    """Return (score, class, x, y, width, height, points ...) of all boxes, best first, without suppression."""
    found = []
    for stride, (rows, columns) in CELLS.items():
        for index in range(rows * columns * anchors):
            row, column = divmod(index // anchors, columns)
            of_row = {
                name[: -len(f"_{stride}")]: each[0, index]
                for name, each in outputs.items()
                if name.endswith(f"_{stride}")
            }
            scores = of_row["scores"].astype(np.float64)
            if "objectness" in of_row:
                scores = np.array([sqrt(each * of_row["objectness"][0]) for each in scores])
            if scores.max() < decoder.score_threshold:
                continue
            x, y = column + decoder.cell_center, row + decoder.cell_center
            first, second, third, fourth = of_row["boxes"].astype(np.float64)
            if decoder.distances:
                box = (x - first, y - second, first + third, second + fourth)
            else:
                width, height = exp(third), exp(fourth)
                box = (x + first - width / 2, y + second - height / 2, width, height)
            points = [
                each
                for i in range(decoder.key_points)
                for each in (x + of_row["points"][2 * i], y + of_row["points"][2 * i + 1])
            ]
            found.append((scores.max(), scores.argmax(), *(stride * each for each in (*box, *points))))
    return sorted(found, key=lambda each: -each[0])


@given(
    seed=st.integers(0, 10_000),
    anchors=st.integers(1, 3),
    classes=st.sampled_from([1, 3]),
    key_points=st.sampled_from([0, 1, 5]),
    has_objectness=st.booleans(),
    distances=st.booleans(),
    cell_center=st.sampled_from([0.0, 0.5]),
    has_batch=st.booleans(),
)
def test_boxes_are_those_of_a_plain_decoder(
    seed: int,
    anchors: int,
    classes: int,
    key_points: int,
    has_objectness: bool,
    distances: bool,
    cell_center: float,
    has_batch: bool,
) -> None:
    decoder = Grids(
        strides=STRIDES, distances=distances, objectness=has_objectness, key_points=key_points, cell_center=cell_center,
        iou_threshold=1.0,
    )  # fmt: skip
    widths = {"scores": classes, "boxes": 4, "points": 2 * key_points, "objectness": int(has_objectness)}
    outputs = values_of(seed, {name: width for name, width in widths.items() if width}, anchors)
    expected = plain(outputs, decoder, anchors)
    found = decode_grids(outputs if has_batch else {name: each[0] for name, each in outputs.items()}, decoder, SIZE)
    points = np.zeros((len(found.boxes), 0)) if found.key_points is None else found.key_points[:, :, :2]
    ours = np.concatenate(
        [found.scores[:, None], found.classes[:, None], found.boxes, points.reshape(len(found.boxes), -1)], axis=1
    )
    assert (found.key_points is None) == (key_points == 0)
    assert np.allclose(ours, np.array(expected).reshape(-1, 6 + 2 * key_points), atol=1e-3)


NO_OBJECTNESS = Grids(strides=STRIDES, objectness=False)


def test_nothing_is_found_where_no_score_is_enough() -> None:
    outputs = values_of(0, {"scores": 1, "boxes": 4, "points": 10}, 1)
    found = decode_grids(outputs, NO_OBJECTNESS.changed(score_threshold=1.0), SIZE)
    assert found.key_points is not None and found.key_points.shape == (0, 5, 3)
    assert len(found.boxes) == 0


@pytest.mark.parametrize("objectness", [False, True])
def test_logits_become_probabilities(objectness: bool) -> None:
    outputs = values_of(0, {"scores": 1, "boxes": 4, "points": 10, **({"objectness": 1} if objectness else {})}, 1)
    is_score = {name: name.startswith(("scores", "objectness")) for name in outputs}
    logits = {name: np.log(each / (1 - each)) if is_score[name] else each for name, each in outputs.items()}
    decoder = Grids(strides=STRIDES, objectness=objectness)
    found, expected = (
        decode_grids(logits, decoder.changed(activation="sigmoid"), SIZE),
        decode_grids(outputs, decoder, SIZE),
    )
    assert np.allclose(found.scores, expected.scores, atol=1e-5) and np.allclose(found.boxes, expected.boxes)


def test_scores_outside_0_to_1_are_cut_before_the_mean() -> None:
    """As OpenCV does: the roots of negative numbers are none, and no score is above 1."""
    outputs = {name: np.zeros(shape, np.float32) for name, shape in FACES.items()}
    outputs["s16"][0, :3, 0], outputs["o16"][0, :3, 0] = (-1, 4, 0.81), (-1, 1, 1)
    assert decode_grids(outputs, Grids(strides=STRIDES, iou_threshold=1.0), SIZE).scores.tolist() == [
        1.0,
        np.float32(0.9),
    ]


def test_the_best_of_boxes_that_overlap_stays() -> None:
    outputs = {name: np.zeros(shape, np.float32) for name, shape in FACES.items()}
    outputs["s16"][0, :2, 0], outputs["o16"][0, :2, 0] = (0.7, 0.9), 1.0
    outputs["b16"][0, 0, 0], outputs["p16"][0, 1] = 1.0, 0.5  # the first box lies where the second does
    found = decode_grids(outputs, Grids(strides=STRIDES), SIZE)
    assert found.boxes.tolist() == [[8, -8, 16, 16]]
    assert found.key_points is not None and found.key_points.tolist() == [[[24, 8, 1]] * 5]


def test_boxes_and_key_points_are_those_of_opencv(tmp_path: Path) -> None:
    """OpenCV reads YuNet's outputs by their names."""
    names = [f"{kind}_{stride}" for kind in ("cls", "obj", "bbox", "kps") for stride in (8, 16, 32)]
    torch.manual_seed(0)
    faces = yolo.lively(yolo.FaceHeads())
    with torch.no_grad():
        for heads in faces.heads[2:]:
            for head in heads:
                head.weight *= 0.02
                head.bias *= 0.1
    path = yolo.exported(faces, tmp_path / "faces.onnx", (96, 128), names)
    image, decoder = (
        np.random.default_rng(0).integers(0, 256, (96, 128, 3), np.uint8),
        Grids(score_threshold=0.4, iou_threshold=0.6),
    )
    outputs = faces(torch.from_numpy(image.transpose(2, 0, 1)[None].astype(np.float32)))
    found = decode_grids(
        {name: value.detach().numpy() for name, value in zip(names, outputs, strict=True)}, decoder, (96, 128)
    )
    _, expected = cv2.FaceDetectorYN.create(str(path), "", (128, 96), 0.4, 0.6).detect(image)
    assert len(expected) > 3 and found.key_points is not None
    ours = np.concatenate([found.boxes, found.key_points[:, :, :2].reshape(-1, 10), found.scores[:, None]], axis=1)
    assert np.allclose(ours, expected[np.argsort(-expected[:, 14], kind="stable")], atol=0.01)


FACES = {
    f"{kind}{stride}": (1, cells, width)
    for stride, cells in ((16, 12), (32, 4))
    for kind, width in (("s", 1), ("o", 1), ("b", 4), ("p", 10))
}
GRIDS = {
    "s16": (1, 12, 3),
    "b16": (1, 12, 4),
    "p16": (1, 12, 10),
    "s32": (1, 4, 3),
    "b32": (1, 4, 4),
    "p32": (1, 4, 10),
}


@pytest.mark.parametrize(
    "shapes",
    [
        {},
        {name: shape for name, shape in GRIDS.items() if name != "p32"},
        {name: shape for name, shape in GRIDS.items() if "32" not in name},
        {**GRIDS, "s8": (1, 48, 3), "b8": (1, 48, 4), "p8": (1, 48, 10)},
        {**GRIDS, "b32": (1, 8, 4)},
        {**GRIDS, "s16": (1, 12, 4)},  # which are the boxes?
        {**GRIDS, "s16": (1, 12, 10)},  # which are the key points?
        {**GRIDS, "t16": (1, 12, 2)},
        {**GRIDS, "o16": (1, 12, 1), "o32": (1, 4, 1)},
        {**GRIDS, "features": (1, 8, 3, 4)},
        {name: (2, *shape[1:]) for name, shape in GRIDS.items()},
    ],
)
def test_outputs_of_other_networks_are_refused(shapes: dict[str, tuple[int, ...]]) -> None:
    decode_grids({name: np.zeros(shape, np.float32) for name, shape in GRIDS.items()}, NO_OBJECTNESS, SIZE)
    with pytest.raises(ValueError, match=r"grids of \[12, 4\] cells: .*key points \[1, n, 10\]"):
        decode_grids({name: np.zeros(shape, np.float32) for name, shape in shapes.items()}, NO_OBJECTNESS, SIZE)


@pytest.mark.parametrize("decoder", [NO_OBJECTNESS.changed(key_points=0), Grids(strides=STRIDES)])
def test_key_points_are_never_taken_for_classes(decoder: Grids) -> None:
    outputs = {name: np.zeros((*shape[:2], min(shape[2], 10)), np.float32) for name, shape in GRIDS.items()}
    with pytest.raises(ValueError, match=r"grids of \[12, 4\] cells"):
        decode_grids(outputs, decoder, SIZE)


def test_grids_of_equal_size_are_not_told_apart() -> None:
    with pytest.raises(ValueError, match="equal size"):
        decode_grids({"b": np.zeros((1, 1, 4), np.float32)}, NO_OBJECTNESS, (16, 16))
