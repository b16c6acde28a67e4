# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Tests of decoding outputs to classes, boxes and class maps."""

from __future__ import annotations

import numpy as np
import pytest

from cacheinf_ros.engine import Decoded, decode
from cacheinf_ros.errors import ModelError
from cacheinf_ros.graph import ModelCard
from cacheinf_ros.graph.decoder_configs import (
    Attribute,
    Attributes,
    Boxes,
    Centers,
    ClassVector,
    DenseMap,
    FastestDet,
    Raw,
    SsdBoxes,
)


def card(**values: object) -> ModelCard:
    return ModelCard(name="test", input_size=(100, 200), **values)


def test_class_vector_by_hand() -> None:
    logits = np.log(np.array([[0.1, 0.7, 0.2]], np.float32))
    decoded = decode({"y": logits}, card(decoder=ClassVector(top_k=2), labels=("a", "b")), (10, 10))
    assert [(c.id, c.name) for c in decoded.classes] == [(1, "b"), (2, "2")]
    assert [c.score for c in decoded.classes] == pytest.approx([0.7, 0.2])


def test_boxes_are_suppressed_within_their_class_and_scaled_to_the_frame() -> None:
    boxes = np.array([[[0.1, 0.1, 0.3, 0.5], [0.11, 0.1, 0.31, 0.5], [0.1, 0.1, 0.3, 0.5], [0.6, 0.6, 0.9, 0.9]]])
    scores = np.array([[[0, 0.9, 0], [0, 0.8, 0], [0, 0, 0.7], [0.99, 0.3, 0]]])
    decoder = Boxes(boxes="b", scores="s", background=0)
    decoded = decode({"b": boxes, "s": scores}, card(decoder=decoder), (50, 50))
    assert [(b.class_id, round(b.score, 3)) for b in decoded.boxes] == [(1, 0.9), (2, 0.7)]
    first = decoded.boxes[0]
    assert (first.x, first.y, first.width, first.height) == pytest.approx((5, 5, 10, 20), abs=1e-4)


def test_detectors_are_chosen_by_their_kind_and_scaled_to_the_frame() -> None:
    cells = np.zeros((1, 6, 2, 4), np.float32)
    cells[0, [0, 5], 1, 2] = 1  # centre (2 / 4, 1 / 2) of the image, half its width and height
    found = decode({"758": cells}, card(decoder=FastestDet(), labels=("thing",)), (50, 50)).boxes
    assert [(b.x, b.y, b.width, b.height, b.name) for b in found] == [(12.5, 12.5, 25, 25, "thing")]
    decoder = SsdBoxes(strides=(100,), min_boxes=((50,),))
    outputs = {"boxes": np.zeros((1, 2, 4), np.float32), "scores": np.array([[[0.2, 0.8], [0.9, 0.1]]], np.float32)}
    found = decode(outputs, card(decoder=decoder), (200, 400)).boxes
    assert [(b.x, b.y, b.width, b.height) for b in found] == [(50, 50, 100, 100)]


def test_shape_decides_without_a_decoder() -> None:
    assert decode({"y": np.zeros((1, 4), np.float32)}, card(), (9, 9)).classes
    dense_map = decode({"y": np.eye(3, dtype=np.float32).reshape(1, 3, 1, 3)}, card(), (9, 9)).class_map
    assert dense_map is not None and dense_map.tolist() == [[0, 1, 2]]
    assert decode({"a": np.zeros((1, 2)), "b": np.zeros((1, 2))}, card(), (9, 9)).classes == ()


def test_raw_outputs_are_given_as_they_are_whatever_their_shape() -> None:
    for outputs in ({"y": np.zeros((1, 4), np.float32)}, {"a": np.zeros((1, 2)), "b": np.zeros((1, 2, 4, 4))}):
        assert decode(outputs, card(decoder=Raw()), (9, 9)) == Decoded()
        assert not decode(outputs, card(decoder=Raw()), (9, 9)).is_certain  # so that the outputs are always sent


def test_outputs_that_do_not_fit_are_named() -> None:
    with pytest.raises(ModelError, match="do not fit the decoder"):
        decode({"y": np.zeros((1, 4))}, card(decoder=Boxes()), (9, 9))


@pytest.mark.parametrize("shape", [(1, 20, 40), (1, 1, 20, 40)])
def test_class_maps_of_integers_are_cut_to_the_frame(shape: tuple[int, ...]) -> None:
    """ArgMax gives the second shape, unless it is told to drop the axis."""
    classes = np.zeros(shape, np.int64)
    classes[..., 5:15, :] = 3  # of a frame with twice the proportions, a quarter is above and below
    square = ModelCard(name="test", input_size=(100, 200), resize="letterbox")
    for read_by in (square, square.model_copy(update={"decoder": DenseMap()})):
        found = decode({"y": classes}, read_by, (25, 100)).class_map
        assert found is not None and found.shape == (10, 40) and (found == 3).all()
    assert decode({"y": classes.astype(np.float32)}, square, (25, 100)).class_map is None


@pytest.mark.parametrize("shape", [(605, 95), (1, 12, 3), (1, 4, 3, 1)])
@pytest.mark.parametrize("decoder", [ClassVector(), Attributes(attributes=(Attribute(name="a", output="y"),))])
def test_values_of_many_places_are_no_classes(decoder: ClassVector | Attributes, shape: tuple[int, ...]) -> None:
    """They were taken for 57,475 classes."""
    with pytest.raises(ModelError, match=rf"one value per class is \[1, classes\], not \{list(shape)}"):
        decode({"y": np.zeros(shape, np.float32)}, card(decoder=decoder), (9, 9))


@pytest.mark.parametrize("shape", [(1, 3), (3,), (1, 3, 1, 1), (1, 1, 3)])
def test_one_value_per_class_may_have_any_number_of_dimensions(shape: tuple[int, ...]) -> None:
    logits = np.array([0.0, 9.0, 0.0], np.float32).reshape(shape)
    assert decode({"y": logits}, card(decoder=ClassVector()), (9, 9)).classes[0].id == 1


def test_a_missing_output_is_named_with_those_that_there_are() -> None:
    outputs = {"out0": np.zeros((1, 2, 1)), "out1": np.zeros((1, 2, 4))}
    there_are = r"there are: out0 \[1, 2, 1\], out1 \[1, 2, 4\]$"
    for decoder in (Boxes(boxes="bbox", scores="out0"), SsdBoxes(boxes="bbox", scores="out0")):
        with pytest.raises(ModelError, match=rf"model 'test' .* decoder {decoder.kind}: .* named 'bbox'; {there_are}"):
            decode(outputs, card(decoder=decoder), (9, 9))
    decoder = Attributes(attributes=(Attribute(name="age", output="bbox"),))
    with pytest.raises(ModelError, match=rf"named 'bbox'; {there_are}"):
        decode(outputs, card(decoder=decoder), (9, 9))


@pytest.mark.parametrize("decoder", [ClassVector(), DenseMap(), Centers(), FastestDet()])
def test_more_outputs_than_one_are_counted(decoder: ClassVector | DenseMap | Centers | FastestDet) -> None:
    outputs = {name: np.zeros((1, 6, 2, 2), np.float32) for name in "abcde"}
    with pytest.raises(ModelError, match=rf"decoder {decoder.kind} needs one output, there are 5: a \[1, 6, 2, 2\], b"):
        decode(outputs, card(decoder=decoder), (9, 9))


@pytest.mark.parametrize("shape", [(605, 95), (2, 3, 4, 4), (1, 3, 4, 4, 4)])
def test_a_map_has_lines_and_columns(shape: tuple[int, ...]) -> None:
    with pytest.raises(ModelError, match=rf"a map is .*, not \{list(shape)}"):
        decode({"y": np.zeros(shape, np.float32)}, card(decoder=DenseMap()), (9, 9))
