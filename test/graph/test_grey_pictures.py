# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""ONNX files that take grey pictures: a card says so, and cameras may show colours all the same."""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np
import onnx
import pytest
import torch
import yolo
from networks.lowered import graph_of
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from oracle import assert_sequence_equals_dense

from cacheinf_ros.engine import Preprocessor
from cacheinf_ros.engine.onnx_content import onnx_content
from cacheinf_ros.errors import ModelError
from cacheinf_ros.graph import Model, ModelCard, is_grey, load_kept_model, load_model
from cacheinf_ros.graph.known_models import recognised
from cacheinf_ros.graph.write import write_model

SIZE = (16, 24)
GREY = "channel_order: grey\nmean: [0.4]\nstd: [0.2]\n"


def network(folder: Path, channels: int = 1, size: tuple[int | str, int | str] = SIZE) -> str:
    """Write a network of two convolutions that takes pictures with so many channels."""
    rng = np.random.default_rng(0)
    first, second = (rng.normal(size=shape).astype(np.float32) for shape in ((4, channels, 3, 3), (2, 4, 1, 1)))
    graph = helper.make_graph(
        [
            helper.make_node("Conv", ["image", "v"], ["hidden"], pads=[1, 1, 1, 1]),
            helper.make_node("Relu", ["hidden"], ["rectified"]),
            helper.make_node("Conv", ["rectified", "w"], ["y"]),
        ],
        "net",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, [1, channels, *size])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 2, "height", "width"])],
        [numpy_helper.from_array(first, "v"), numpy_helper.from_array(second, "w")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])
    model.ir_version = 8
    onnx.save(model, folder / "net.onnx")
    return str(folder / "net.onnx")


def card(folder: Path, text: str = GREY, factory: str = "net.onnx") -> str:
    (folder / "card.yaml").write_text(f"factory: {factory}\n{text}")
    return str(folder / "card.yaml")


def answer(model: Model, picture: NDArray[np.uint8]) -> NDArray[np.float32]:
    with torch.inference_mode():
        return model.module(torch.from_numpy(Preprocessor(model.card).input(picture)))["y"].numpy()


def reference(folder: Path, grey: NDArray[np.generic]) -> NDArray[np.float32]:
    """Return the answer of ONNX' own interpreter to a grey picture [height, width]."""
    values = ((grey / 255 - 0.4) / 0.2).astype(np.float32)[None, None]
    (expected,) = ReferenceEvaluator(str(folder / "net.onnx")).run(None, {"image": values})
    return np.asarray(expected)


def test_a_grey_camera_is_taken_as_it_is(tmp_path: Path) -> None:
    network(tmp_path)
    grey = np.random.default_rng(1).integers(0, 256, SIZE, np.uint8)
    result = answer(load_model(card(tmp_path)), cv2.cvtColor(grey, cv2.COLOR_GRAY2BGR))
    np.testing.assert_allclose(result, reference(tmp_path, grey), rtol=1e-4, atol=1e-4)


def test_colours_become_grey_as_opencv_makes_them(tmp_path: Path) -> None:
    network(tmp_path)
    picture = np.random.default_rng(1).integers(0, 256, (*SIZE, 3), np.uint8)
    grey = cv2.cvtColor(picture.astype(np.float32), cv2.COLOR_BGR2GRAY)  # not rounded
    model = load_model(card(tmp_path))
    np.testing.assert_allclose(answer(model, picture), reference(tmp_path, grey), rtol=1e-4, atol=1e-4)
    session = pytest.importorskip("onnxruntime").InferenceSession(onnx_content(model))  # as other engines have it
    (result,) = session.run(None, {session.get_inputs()[0].name: Preprocessor(model.card).input(picture)})
    np.testing.assert_allclose(result, answer(model, picture), rtol=1e-4, atol=1e-4)


def test_cached_equals_dense(tmp_path: Path) -> None:
    network(tmp_path, size=(40, 56))
    model = load_model(card(tmp_path))
    assert model.graph.unknown == () and len(model.graph.operators) == 2  # no operator more than the file has
    assert_sequence_equals_dense(model)


def test_the_card_gives_the_size_that_is_open(tmp_path: Path) -> None:
    network(tmp_path, size=("h", "w"))
    assert load_model(card(tmp_path, f"{GREY}input_size: 40x56\n")).input_size == (40, 56)


def test_a_kept_graph_is_not_used_without_the_card(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    plain = network(tmp_path)
    for _ in range(2):
        assert load_kept_model(card(tmp_path)).input_size == SIZE
    with pytest.raises(ModelError, match="a grey picture"):
        load_kept_model(plain)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", r"takes \[1, 1, 16, 24\], a grey picture\. Say so in a model card.*'channel_order: grey'.*'mean: \[0\]'"),
        ("channel_order: rgb\nmean: [0]\nstd: [1]\n", "a grey picture"),
        ("channel_order: grey\n", r"give one mean and one std\. For values of 0 to 1: 'mean: \[0\]' and 'std: \[1\]'"),
        ("channel_order: grey\nmean: [0.4, 0.5, 0.4]\nstd: [1]\n", "give one mean"),
        ("channel_order: grey\nmean: [0.4, 0.5]\nstd: [1]\n", r"three numbers, .*, or one for all"),
    ],
)
def test_a_card_that_says_too_little_is_refused(tmp_path: Path, text: str, message: str) -> None:
    network(tmp_path)
    with pytest.raises(ModelError, match=message):
        load_model(card(tmp_path, text))


def test_a_written_model_is_no_longer_grey(tmp_path: Path) -> None:
    """Its network makes one channel of three by itself."""
    network(tmp_path)
    model = load_model(card(tmp_path))
    write_model(model, tmp_path / "written.yaml")
    written = load_model(str(tmp_path / "written.yaml"))
    picture = np.random.default_rng(1).integers(0, 256, (*SIZE, 3), np.uint8)
    assert not is_grey(written.card)
    np.testing.assert_array_equal(answer(written, picture), answer(model, picture))


def test_known_detectors_are_recognised() -> None:
    """The card says which values a grey picture has, and the shapes of the outputs say the rest."""
    said = ModelCard(name="thermal", factory="net.onnx", channel_order="grey", mean=(0.4,) * 3, std=(0.2,) * 3)
    graph = graph_of(yolo.Yolo8().eval(), (96, 128))
    found = recognised(said, graph)
    assert found.decoder is not None and found.decoder.kind == "yolo" and found.resize == "letterbox"
    assert (is_grey(found), found.mean, found.std) == (True, said.mean, said.std)
    assert recognised(said.changed(resize="stretch"), graph).decoder is None


def test_networks_that_take_colours_are_not_grey(tmp_path: Path) -> None:
    network(tmp_path, channels=3)
    with pytest.raises(
        ModelError, match=r"takes \[1, 3, 16, 24\], a picture in colour: leave out 'channel_order: grey'"
    ):
        load_model(card(tmp_path))
    with pytest.raises(ModelError, match="channel_order grey is for ONNX files"):
        load_model(card(tmp_path, factory="torchvision:resnet18"))
