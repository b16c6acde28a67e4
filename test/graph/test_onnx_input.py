# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""ONNX files take one image; what others take is refused with its name and the remedy, or prepared as a card says."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from cacheinf_ros.engine import Preprocessor
from cacheinf_ros.engine.onnx_content import onnx_content
from cacheinf_ros.errors import ModelError
from cacheinf_ros.graph import load_kept_model, load_model

Shape = list[int | str]
SIZE = (16, 24)
PLAIN: Shape = [1, 3, *SIZE]
AS_THEY_ARE = "scale: 1\nmean: [0, 0, 0]\nstd: [1, 1, 1]\n"


def network(
    folder: Path,
    inputs: dict[str, Shape],
    nodes: Sequence[onnx.NodeProto] = (),
    kind: int = TensorProto.FLOAT,
    constants: Sequence[onnx.TensorProto] = (),
) -> str:
    """Write a model that convolves ``image``, or the value that nodes before make of ``x``, to ``y``."""
    weight = numpy_helper.from_array(np.random.default_rng(0).normal(size=(4, 3, 3, 3)).astype(np.float32), "w")
    graph = helper.make_graph(
        [*nodes, helper.make_node("Conv", ["image", "w"], ["y"], pads=[1, 1, 1, 1])],
        "net",
        [helper.make_tensor_value_info(name, kind, shape) for name, shape in inputs.items()],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 4, "height", "width"])],
        [weight, *constants],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])
    model.ir_version = 8
    onnx.save(model, folder / "net.onnx")
    return str(folder / "net.onnx")


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        (
            {"image": PLAIN, "z": [1, "k"]},
            r"its inputs are: image \[1, 3, 16, 24\], z \[1, k\]\. Export it with the image alone, or say in a model "
            r"card what the rest is in every frame: 'fixed_inputs: \{z: \[\[1\]\]\}'",
        ),
        ({"z": [1, 2], "image": PLAIN}, r"its inputs are: z \[1, 2\], image"),
        (
            {"image": PLAIN, "right": PLAIN},
            r"image \[1, 3, 16, 24\], right .*\. Export it with the image alone, or, where both .* 'pictures: 2'$",
        ),
        ({"image": [4, 3, *SIZE]}, r"takes \[4, 3, 16, 24\], 4 images at once: export it with batch 1"),
        ({"image": [1, *SIZE, 3]}, r"takes \[1, 16, 24, 3\], channels last: export it with channels first, NCHW"),
        ({"image": ["n", "h", "w", 3]}, r"takes \[n, h, w, 3\], channels last: export it with channels first, NCHW"),
        ({"image": [1, *SIZE, 1]}, r"takes \[1, 16, 24, 1\], channels last: .* NCHW, \[1, 1, height, width\]"),
        ({"image": [1, 2, *SIZE]}, r"takes \[1, 2, 16, 24\], not one image \[1, 3, height, width\]: export it so"),
        ({"image": [1, 3, "h", "w"]}, r"open: give one, --size HEIGHTxWIDTH .* -p input_size:=HEIGHTxWIDTH .* card"),
    ],
)
def test_what_is_not_one_image_is_named_with_the_remedy(tmp_path: Path, inputs: dict[str, Shape], message: str) -> None:
    reference = network(tmp_path, inputs)
    with pytest.raises(ModelError, match=rf"net\.onnx .*{message}"):
        load_model(reference)


def test_a_file_without_an_input_is_refused(tmp_path: Path) -> None:
    image = numpy_helper.from_array(np.zeros((1, 3, *SIZE), np.float32), "image")
    with pytest.raises(ModelError, match="its inputs are: none"):
        load_model(network(tmp_path, {}, constants=[image]))


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        (PLAIN, r"takes images of \(16, 24\), not \(48, 64\): leave the size out .--size, .* export the model anew"),
        ([1, 3, 16, "w"], r"takes images of 16x\?, not \(48, 64\): leave"),
    ],
)
def test_a_size_that_the_file_does_not_take_is_refused(tmp_path: Path, shape: Shape, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        load_model(network(tmp_path, {"image": shape}), input_size=(48, 64))


def test_an_open_side_is_as_wanted(tmp_path: Path) -> None:
    assert load_model(network(tmp_path, {"image": ["n", "c", 16, "w"]}), input_size=(16, 40)).input_size == (16, 40)


def of_bytes(folder: Path) -> str:
    """Write a network that prepares its images itself, from uint8."""
    nodes = [
        helper.make_node("Transpose", ["x"], ["t"], perm=[0, 1, 2, 3]),
        helper.make_node("Cast", ["t"], ["f"], to=TensorProto.FLOAT),
        helper.make_node("Div", ["f", "k"], ["image"]),
    ]
    k = numpy_helper.from_array(np.float32(255), "k")
    return network(folder, {"x": PLAIN}, nodes, TensorProto.UINT8, [k])


def test_bytes_are_refused_without_a_card_that_says_which(tmp_path: Path) -> None:
    """The network was fed what ImageNet's networks want, without a word."""
    reference, card = of_bytes(tmp_path), tmp_path / "card.yaml"
    remedy = r"takes uint8, .* 'scale: 1', 'mean: \[0, 0, 0\]' and 'std: \[1, 1, 1\]'"
    with pytest.raises(ModelError, match=remedy):
        load_model(reference)
    card.write_text("factory: net.onnx\nscale: 1\nmean: [0, 0, 0]\n")
    with pytest.raises(ModelError, match=remedy):
        load_model(str(card))


def test_bytes_are_prepared_as_a_card_says(tmp_path: Path) -> None:
    reference, card = of_bytes(tmp_path), tmp_path / "card.yaml"
    card.write_text(f"factory: net.onnx\n{AS_THEY_ARE}")
    model = load_model(str(card))
    picture = np.random.default_rng(1).integers(0, 256, (*SIZE, 3), np.uint8)
    values = np.ascontiguousarray(picture[None, ..., ::-1].transpose(0, 3, 1, 2))
    (expected,) = ReferenceEvaluator(reference).run(None, {"x": values})
    with torch.inference_mode():
        result = model.module(torch.from_numpy(Preprocessor(model.card).input(picture)))["y"].numpy()
    np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-5)
    runtime = pytest.importorskip("onnxruntime")
    (expected,) = runtime.InferenceSession(reference).run(None, {"x": values})
    np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-5)
    floats = Preprocessor(model.card).input(picture)  # other engines are given floats, which the file refuses
    session = runtime.InferenceSession(onnx_content(model))
    (result,) = session.run(None, {session.get_inputs()[0].name: floats})
    np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-5)


def test_a_kept_graph_is_not_used_without_the_card(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    reference, card = of_bytes(tmp_path), tmp_path / "card.yaml"
    card.write_text(f"factory: net.onnx\n{AS_THEY_ARE}")
    for _ in range(2):
        assert load_kept_model(str(card)).input_size == SIZE
    with pytest.raises(ModelError, match="takes uint8"):
        load_kept_model(reference)


def test_what_computes_with_whole_numbers_is_refused(tmp_path: Path) -> None:
    """As floats they neither round nor overflow, and the scale of DequantizeLinear would be left out."""
    scale = numpy_helper.from_array(np.float32(0.1), "s")
    zero = numpy_helper.from_array(np.uint8(3), "z")
    node = helper.make_node("DequantizeLinear", ["x", "s", "z"], ["image"], name="levels")
    network(tmp_path, {"x": PLAIN}, [node], TensorProto.UINT8, [scale, zero])
    (tmp_path / "card.yaml").write_text(f"factory: net.onnx\n{AS_THEY_ARE}")
    with pytest.raises(ModelError, match=r"takes uint8, and its node 'levels' \(DequantizeLinear\) computes with that"):
        load_model(str(tmp_path / "card.yaml"))


def pyramid(folder: Path, size: Sequence[int | str]) -> str:
    """Write a network for even numbers of cells: a small map, made twice as large, is added to the one it came from."""
    down = {"strides": [2, 2], "pads": [1, 1, 1, 1]}
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["large"], **down),
        helper.make_node("Conv", ["large", "v"], ["small"], **down),
        helper.make_node("Resize", ["small", "", "twice"], ["made"], mode="nearest"),
        helper.make_node("Add", ["large", "made"], ["sum"], name="sum_of_both"),
        helper.make_node("Shape", ["sum"], ["shape"]),
        helper.make_node("Gather", ["shape", "last"], ["width"]),
        helper.make_node("Concat", ["rest", "width"], ["wanted"], axis=0),
        helper.make_node("Reshape", ["sum", "wanted"], ["y"]),
    ]
    rng = np.random.default_rng(0)
    constants = {
        "w": rng.normal(size=(4, 3, 3, 3)).astype(np.float32), "v": rng.normal(size=(4, 4, 3, 3)).astype(np.float32),
        "twice": np.array([1, 1, 2, 2], np.float32), "last": np.array([3]), "rest": np.array([1, -1]),
    }  # fmt: skip
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, *size])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, "n", "width"])],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])
    model.ir_version = 8
    onnx.save(model, folder / "net.onnx")
    return str(folder / "net.onnx")


def test_a_size_that_does_not_suit_the_network_is_refused_with_others(tmp_path: Path) -> None:
    """The operator Shape was said not to be supported."""
    reference = pyramid(tmp_path, ["h", "w"])
    assert load_model(reference, input_size=(64, 96)).input_size == (64, 96)
    with pytest.raises(ModelError, match=r"for images of 70x96: .*sum_of_both.* 32: try 64x96 or 96x96$"):
        load_model(reference, input_size=(70, 96))
    with pytest.raises(ModelError, match=r"for images of 22x96: .* 32: try 32x96$"):
        load_model(reference, input_size=(22, 96))
    with pytest.raises(ModelError, match=r"for images of 70x96: .*Incompatible dimensions$"):
        load_model(pyramid(tmp_path, [70, 96]))


def test_shapes_that_cannot_be_folded_are_no_matter_of_the_size(tmp_path: Path) -> None:
    """NonZero gives as many values as the picture says."""
    nodes = [
        helper.make_node("NonZero", ["x"], ["places"]),
        helper.make_node("Shape", ["places"], ["shape"]),
        helper.make_node("Cast", ["shape"], ["count"], to=TensorProto.FLOAT),
        helper.make_node("ReduceMax", ["count"], ["most"], keepdims=0),
        helper.make_node("Add", ["x", "most"], ["image"]),
    ]
    with pytest.raises(ModelError, match="the ONNX operator NonZero"):
        load_model(network(tmp_path, {"x": ["n", 3, "h", "w"]}, nodes), input_size=SIZE)
