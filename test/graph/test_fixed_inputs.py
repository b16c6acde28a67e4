# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""A card gives an ONNX file's other inputs their values, and the network computes what it would with them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

from cacheinf_ros.engine.onnx_content import onnx_content
from cacheinf_ros.errors import ModelError
from cacheinf_ros.graph import ModelCard, load_card, load_kept_model, load_model
from cacheinf_ros.graph.fixed_inputs import FixedInput, example_of, fix_inputs

SIZE = (8, 12)


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Write a network that multiplies its image by the height and width in ``sizes``, and by ``factor``."""
    nodes = [
        helper.make_node("Cast", ["sizes"], ["floats"], to=TensorProto.FLOAT),
        helper.make_node("Unsqueeze", ["floats", "axes"], ["column"]),  # [1, 2, 1]
        helper.make_node("MatMul", ["row", "column"], ["sum"]),
        helper.make_node("Mul", ["image", "sum"], ["larger"]),
        helper.make_node("Mul", ["larger", "factor"], ["y"]),
    ]
    inputs = [
        helper.make_tensor_value_info("factor", TensorProto.FLOAT, []),
        helper.make_tensor_value_info("image", TensorProto.FLOAT, [1, 3, *SIZE]),
        helper.make_tensor_value_info("sizes", TensorProto.INT64, ["n", 2]),
    ]
    constants = [
        helper.make_tensor("axes", TensorProto.INT64, [1], [2]),
        helper.make_tensor("row", TensorProto.FLOAT, [1, 1, 2], [1.0, 1.0]),
    ]
    output = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 3, *SIZE])
    model = helper.make_model(
        helper.make_graph(nodes, "net", inputs, [output], constants), opset_imports=[helper.make_opsetid("", 18)]
    )
    model.ir_version = 8
    onnx.save(model, tmp_path / "net.onnx")
    return tmp_path


def card(folder: Path, text: str) -> str:
    (folder / "card.yaml").write_text(f"factory: net.onnx\n{text}\n")
    return str(folder / "card.yaml")


def test_the_network_computes_as_with_these_inputs(folder: Path) -> None:
    image = np.random.default_rng(0).normal(size=(1, 3, *SIZE)).astype(np.float32)
    for sizes, factor in (([[3, 4]], 0.5), ([[640, 480]], -2)):
        model = load_model(card(folder, f"fixed_inputs: {{sizes: {sizes}, factor: {factor}}}"))
        given = {"image": image, "sizes": np.array(sizes), "factor": np.float32(factor)}
        (expected,) = ReferenceEvaluator(str(folder / "net.onnx")).run(None, given)
        with torch.inference_mode():
            np.testing.assert_allclose(model.module(torch.from_numpy(image))["y"].numpy(), expected, rtol=1e-6)


def test_other_engines_are_given_the_image_alone(folder: Path) -> None:
    image = np.random.default_rng(0).normal(size=(1, 3, *SIZE)).astype(np.float32)
    model = load_model(card(folder, "fixed_inputs: {sizes: [[3, 4]], factor: 0.5}"))
    session = pytest.importorskip("onnxruntime").InferenceSession(onnx_content(model))
    (given,) = session.get_inputs()
    np.testing.assert_allclose(session.run(None, {given.name: image})[0], 3.5 * image, rtol=1e-6)


def test_weights_do_not_replace_what_the_card_says(folder: Path) -> None:
    """A value that is not folded into others is a tensor of the network, but none of its weights."""
    model = load_model(card(folder, "fixed_inputs: {sizes: [[3, 4]], factor: 0.5}"))
    assert not any(float(tensor.sum()) == 0.5 for tensor in model.module.state_dict().values())


def test_a_kept_graph_is_that_of_other_values_too(folder: Path) -> None:
    image = torch.ones(1, 3, *SIZE)
    for factor in (1.0, 2.0, 1.0):
        model = load_kept_model(card(folder, f"fixed_inputs: {{sizes: [[1, 2]], factor: {factor}}}"))
        with torch.inference_mode():
            assert float(model.module(image)["y"].max()) == 3 * factor


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{sizes: [[1, 2]]}", r"its inputs are: factor \[\], image \[1, 3, 8, 12\]\. .* 'fixed_inputs: \{factor: 1\}'"),
        ("{}", r"'fixed_inputs: \{factor: 1, sizes: \[\[1, 1\]\]\}'"),
        ("{size: 1}", r"has no input 'size', .*; it has: factor, image, sizes"),
        ("{axes: [1]}", r"has no input 'axes'"),
        ("{sizes: [1, 2], factor: 1}", r"'sizes' takes the shape \['\?', 2\], but its card gives it \[2\]"),
        ("{sizes: [[1, 2, 3]], factor: 1}", r"takes the shape \['\?', 2\], but its card gives it \[1, 3\]"),
        ("{sizes: [[1, 2.5]], factor: 1}", r"'sizes' takes int64, and not all numbers that its card gives are"),
        ("{sizes: [[1, 1.0e+30]], factor: 1}", r"'sizes' takes int64, and not all"),
        ("{sizes: [[1, 1]], factor: 1.0e+300}", r"'factor' takes float, and not all numbers that its card gives are"),
        ("{sizes: [[1, 2], [3]]}", r"fixed_inputs = .*sizes has no array of numbers: give each input's name"),
        ("{sizes: many}", r"sizes has no array of numbers"),
        ("{sizes: [[.nan, 1]]}", r"sizes must have 1 to 65536 finite numbers"),
        ("{sizes: []}", r"sizes must have 1 to 65536 finite numbers"),
        ("{1: [1]}", r"give each input's name and its numbers, such as"),
        ("[sizes]", r"give each input's name and its numbers, such as"),
        ("[[factor, 1], [factor, 2]]", r"an input is named twice"),
    ],
)
def test_what_does_not_fit_is_said(folder: Path, text: str, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        load_model(card(folder, f"fixed_inputs: {text}"))


def test_what_takes_no_numbers_cannot_be_given_any(folder: Path) -> None:
    model = onnx.load(folder / "net.onnx")
    model.graph.input[0].type.CopyFrom(helper.make_tensor_type_proto(TensorProto.STRING, []))
    with pytest.raises(ModelError, match="'factor' takes no numbers, so that no card can give it any"):
        fix_inputs(model, folder / "net.onnx", [FixedInput("factor", 1.0)])
    model.graph.input[0].type.CopyFrom(
        helper.make_sequence_type_proto(helper.make_tensor_type_proto(TensorProto.FLOAT, []))
    )
    with pytest.raises(ModelError, match="'factor' takes no numbers"):
        fix_inputs(model, folder / "net.onnx", [FixedInput("factor", 1.0)])
    assert example_of(model.graph.input) == ""


def test_the_line_that_an_error_shows_can_be_read(folder: Path) -> None:
    """Older exporters call values by numbers, which are no names in YAML."""
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, "n", 2]) for name in ("0", "1.1", "factor")]
    read = load_card(card(folder, example_of(values)))
    assert read.fixed_inputs == tuple((name, (((1.0, 1.0),),)) for name in ("0", "1.1", "factor"))


def test_only_onnx_files_have_such_inputs(tmp_path: Path) -> None:
    (tmp_path / "card.yaml").write_text("factory: torchvision:alexnet\nfixed_inputs: {k: 1}\n")
    with pytest.raises(ModelError, match=r"fixed_inputs is for ONNX files\. Let torchvision:alexnet be"):
        load_card(str(tmp_path / "card.yaml"))


def test_a_card_survives_being_written(folder: Path) -> None:
    read = load_card(card(folder, "fixed_inputs: {sizes: [[640, 480]], factor: 2}"))
    assert read.fixed_inputs == (("sizes", ((640.0, 480.0),)), ("factor", 2.0))
    assert ModelCard(**read.model_dump()) == read == ModelCard.model_validate_json(read.model_dump_json())
    assert hash(read) == hash(ModelCard(**read.model_dump()))
