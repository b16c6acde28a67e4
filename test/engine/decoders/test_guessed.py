# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Outputs that no card explains: what is guessed of them, and what is refused rather than read wrongly."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from graph.test_onnx import saved
from onnx import helper

from cacheinf_ros.engine.decoders import decode
from cacheinf_ros.errors import ModelError
from cacheinf_ros.graph import ModelCard, load_model
from cacheinf_ros.graph.decoder_configs import DenseMap

SIZE = (4, 4)
CARD = ModelCard(name="net", factory="f", input_size=SIZE)


@pytest.mark.parametrize("after", [[], ["reshape"], ["quantise", "dequantise"]])
def test_probabilities_are_reported_as_they_are(tmp_path: Path, after: list[str]) -> None:
    """Many classifiers' files end with a softmax; after a second one, 0.97 of ten classes was 0.23."""
    nodes = [
        helper.make_node("GlobalAveragePool", ["x"], ["mean"]),
        helper.make_node("Flatten", ["mean"], ["vector"]),
        helper.make_node("Mul", ["vector", "gain"], ["logits"]),
        helper.make_node("Softmax", ["logits"], ["p"], axis=1),
    ]
    name = "p"
    for step in after:
        inputs = {"reshape": ["rows"], "quantise": ["step", "zero"], "dequantise": ["step", "zero"]}[step]
        kind = {"reshape": "Reshape", "quantise": "QuantizeLinear", "dequantise": "DequantizeLinear"}[step]
        nodes.append(helper.make_node(kind, [name, *inputs], [f"{name}{step}"]))
        name = f"{name}{step}"
    nodes.append(helper.make_node("Identity", [name], ["y"]))
    constants = {
        "gain": np.array([[20.0]], np.float32), "rows": np.array([1, 3]), "step": np.array(1 / 256, np.float32),
        "zero": np.array(0, np.uint8),
    }  # fmt: skip
    used = {each for node in nodes for each in node.input}
    saved(tmp_path / "net.onnx", nodes, {key: value for key, value in constants.items() if key in used})
    model = load_model(str(tmp_path / "net.onnx"))
    scores = np.array([[0.03, 0.97, 0.0]], np.float32)
    decoded = decode({"y": scores}, model.card, model.input_size)
    assert [each.id for each in decoded.classes] == [1, 0, 2] and decoded.classes[0].score == pytest.approx(0.97)
    assert not decoded.is_certain, "the outputs are sent as well, as no card says what they are"


def test_logits_become_probabilities() -> None:
    logits = np.array([[0.0, np.log(3), -40.0]], np.float32)
    assert [each.score for each in decode({"y": logits}, CARD, SIZE).classes] == pytest.approx([0.75, 0.25, 0.0])


def test_a_single_score_for_each_pixel_is_no_map_of_classes() -> None:
    """It was read as one: of a single channel the best class is always the first."""
    card = CARD.changed(decoder=DenseMap())
    with pytest.raises(ModelError, match="a single score: let the network end with a threshold"):
        decode({"y": np.full((1, 1, 4, 4), 5, np.float32)}, card, SIZE)
    assert decode({"y": np.full((1, 1, 4, 4), 5)}, card, SIZE).class_map is not None
    assert decode({"y": np.full((1, 1, 4, 4), 5, np.float32)}, CARD, SIZE).class_map is None
    with pytest.raises(ModelError, match="a single score: let the network end with a threshold"):
        decode({"y": np.full((1, 4, 4), 0.9, np.float32)}, card, SIZE)
    for classes in (np.full((1, 4, 4), 7.0, np.float32), np.ones((1, 4, 4), np.bool_), np.ones((1, 1, 4, 4), np.bool_)):
        found = decode({"y": classes}, card, SIZE).class_map
        assert found is not None and (found == int(classes.max())).all(), "as ArgMax and thresholds give them"


@pytest.mark.parametrize(
    "output", [np.zeros((1, 300, 2, 2), np.float32), np.full((1, 4, 4), 300), np.full((1, 4, 4), -1)]
)
def test_a_map_of_more_classes_than_a_byte_has_is_refused(output: np.ndarray) -> None:
    """Class 300 was published as 44."""
    with pytest.raises(ModelError, match="at most 256 classes, numbered from 0"):
        decode({"y": output}, CARD.changed(decoder=DenseMap()), SIZE)
    assert decode({"y": output}, CARD, SIZE).class_map is None, "distances in millimetres, perhaps"


def test_a_list_of_whole_numbers_is_no_list_of_scores() -> None:
    """The classes that TopK gives were taken for their scores."""
    best = np.array([[7, 3]])
    assert decode({"y": best}, CARD, SIZE).classes == ()
    of_two = CARD.changed(labels=("cat", "dog"))
    assert [each.name for each in decode({"y": best}, of_two, SIZE).classes] == ["cat", "dog"]
