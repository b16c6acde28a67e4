# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""ONNX files with two inputs, which take the two pictures that each frame shows: stereo, or colour and depth."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
import torch.fx
from numpy.typing import NDArray
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator
from oracle import assert_sequence_equals_dense
from pairs import assert_one_and_two_agree
from two_pictures import SIZE, network

from cacheinf_ros.cache_map import CacheMap, Motion
from cacheinf_ros.engine import Engine, EngineConfig, Preprocessor, decode, mode_of_maps
from cacheinf_ros.engine.dense_backends import Backend, fastest_backends
from cacheinf_ros.engine.onnx_content import onnx_content
from cacheinf_ros.errors import EngineError, ModelError
from cacheinf_ros.graph import Model, load_kept_model, load_model
from cacheinf_ros.graph.write import write_model
from cacheinf_ros.mode import Mode
from cacheinf_ros.pipeline.dense_execution import answers_to_photographs
from cacheinf_ros.sources.scenes import Gallery, load_photographs

FRAME = (SIZE[0], 2 * SIZE[1])
DEPTH = "pictures: 2\nmean: [0.4, 0.5, 0.6]\nstd: [0.2, 0.3, 0.4]\none_channel_range: [0.5, 8]\n"


def card(folder: Path, text: str = DEPTH) -> str:
    (folder / "card.yaml").write_text(f"factory: net.onnx\n{text}")
    return str(folder / "card.yaml")


def frame(seed: int = 1) -> NDArray[np.uint8]:
    return np.random.default_rng(seed).integers(0, 256, (*FRAME, 3), np.uint8)


def answer(model: Model, image: NDArray[np.uint8]) -> NDArray[np.float32]:
    with torch.inference_mode():
        return model.module(torch.from_numpy(Preprocessor(model.card).input(image)))["y"].numpy()


def test_each_input_takes_its_half(tmp_path: Path) -> None:
    network(tmp_path)
    image = frame()
    left, right = image[:, : SIZE[1]], image[:, SIZE[1] :]
    rgb = (left[..., ::-1] / 255 - [0.4, 0.5, 0.6]) / [0.2, 0.3, 0.4]
    depth = 0.5 + 7.5 * right.mean(axis=2) / 255
    given = {"rgb": rgb.transpose(2, 0, 1)[None].astype(np.float32), "depth": depth[None, None].astype(np.float32)}
    (expected,) = ReferenceEvaluator(str(tmp_path / "net.onnx")).run(None, given)
    model = load_model(card(tmp_path))
    assert model.input_size == FRAME and model.graph.unknown == ()
    np.testing.assert_allclose(answer(model, image), expected, rtol=1e-4, atol=1e-3)
    session = pytest.importorskip("onnxruntime").InferenceSession(onnx_content(model))  # as other engines have it
    (result,) = session.run(None, {session.get_inputs()[0].name: Preprocessor(model.card).input(image)})
    np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-3)


def test_what_else_the_file_takes_is_fixed(tmp_path: Path) -> None:
    network(tmp_path)
    model = onnx.load(tmp_path / "net.onnx")
    model.graph.input.insert(0, helper.make_tensor_value_info("gain", TensorProto.FLOAT, [1]))
    model.graph.node.append(helper.make_node("Mul", ["y", "gain"], ["z"]))
    model.graph.output[0].name = "z"
    onnx.save(model, tmp_path / "net.onnx")
    twice = load_model(card(tmp_path, f"{DEPTH}fixed_inputs: {{gain: [2]}}\n"))
    with torch.inference_mode():
        found = twice.module(torch.from_numpy(Preprocessor(twice.card).input(frame())))["z"].numpy()
    network(tmp_path)
    np.testing.assert_allclose(found, 2 * answer(load_model(card(tmp_path)), frame()), rtol=1e-4, atol=1e-3)


def test_halves_in_colour_are_prepared_alike(tmp_path: Path) -> None:
    network(tmp_path, (3, 3))
    image = frame()
    values = ((image[..., ::-1] / 255 - 0.5) / 0.25).astype(np.float32).transpose(2, 0, 1)[None]
    given = {"rgb": values[..., : SIZE[1]], "depth": values[..., SIZE[1] :]}
    (expected,) = ReferenceEvaluator(str(tmp_path / "net.onnx")).run(None, given)
    model = load_model(card(tmp_path, "pictures: 2\nmean: [0.5]\nstd: [0.25]\n"))
    np.testing.assert_allclose(answer(model, image), expected, rtol=1e-4, atol=1e-3)


def test_the_module_can_be_traced(tmp_path: Path) -> None:
    """As changes of its architecture for catalogs need."""
    network(tmp_path)
    model = load_model(card(tmp_path))
    given = torch.from_numpy(Preprocessor(model.card).input(frame()))
    torch.testing.assert_close(torch.fx.symbolic_trace(model.module)(given)["y"], model.module(given)["y"])


def test_cached_equals_dense(tmp_path: Path) -> None:
    network(tmp_path)
    assert_sequence_equals_dense(load_model(card(tmp_path)))


def test_two_machines_share_the_rows_of_both(tmp_path: Path) -> None:
    network(tmp_path)
    assert_one_and_two_agree(load_model(card(tmp_path)).graph, 0)


def test_classes_are_those_of_the_left_picture(tmp_path: Path) -> None:
    network(tmp_path)
    model = load_model(card(tmp_path, f"{DEPTH}decoder: {{kind: map}}\n"))
    found = decode({"y": answer(model, frame())}, model.card, FRAME)
    assert found.class_map is not None and found.class_map.shape == (SIZE[0] // 2, SIZE[1] // 2)


def test_boxes_are_in_pixels_of_the_left_picture(tmp_path: Path) -> None:
    network(tmp_path)
    model = load_model(card(tmp_path, f"{DEPTH}decoder: {{kind: centers, stride: 8, score_threshold: 0.5}}\n"))
    heads = np.full((1, 5, SIZE[0] // 8, SIZE[1] // 8), -9.0, np.float32)
    heads[0, :, 2, 3] = (9.0, 0.5, 0.5, 0.0, 0.0)  # in the middle of the fourth cell of the third row, as large as it
    (box,) = decode({"y": heads}, model.card, (2 * FRAME[0], 2 * FRAME[1])).boxes
    assert (box.x, box.y, box.width, box.height) == pytest.approx((48, 32, 16, 16))


@pytest.mark.parametrize("mode", [Mode.DEEPCACHE, Mode.BOUNDED])
def test_a_motion_of_the_frame_is_not_followed(tmp_path: Path, mode: Mode) -> None:
    """Neither picture in it turns as the frame does."""
    network(tmp_path)
    model = load_model(card(tmp_path))
    engine = Engine(model, EngineConfig(mode=mode))
    engine.run(frame(1), None)
    moved = CacheMap.nothing(FRAME, 8, "")
    moved = CacheMap(
        image_size=FRAME, block_size=8, reusable=np.ones_like(moved.reusable), motion=Motion.translation(8, 0)
    )
    found = engine.run(frame(2), moved)
    assert found.mode is Mode.DENSE and found.motion.is_none
    np.testing.assert_allclose(found.outputs["y"], answer(model, frame(2)), rtol=1e-4, atol=1e-3)
    assert {mode_of_maps(engine, mode) for mode in Mode} == {Mode.EXACT}


def test_backends_are_judged_on_photographs_whatever_their_width(tmp_path: Path) -> None:
    """Some photographs are of an odd width; both halves of a frame show the same one."""
    network(tmp_path)
    model = load_model(card(tmp_path))
    (backend, *_) = fastest_backends(model, 1, [Backend.TORCH])
    found = answers_to_photographs(model, backend)
    assert len(found) == len(load_photographs(Gallery.TEST))
    assert all(each["y"].shape == (1, 4, SIZE[0] // 2, SIZE[1] // 2) for each in found)


def test_a_frame_of_odd_width_is_refused(tmp_path: Path) -> None:
    network(tmp_path)
    engine = Engine(load_model(card(tmp_path)), EngineConfig())
    with pytest.raises(EngineError, match="64x97 does not show 2 pictures of one size, side by side"):
        engine.run(np.zeros((64, 97, 3), np.uint8), None)


def test_the_card_gives_the_size_of_the_whole_frame_where_it_is_open(tmp_path: Path) -> None:
    network(tmp_path, sizes=(("h", "w"), ("h", "w")))
    assert load_model(card(tmp_path, f"{DEPTH}input_size: 32x96\n")).input_size == FRAME
    network(tmp_path, sizes=((32, "w"), ("h", 48)))
    assert load_model(card(tmp_path)).input_size == FRAME


def test_what_a_written_model_takes_is_the_whole_frame(tmp_path: Path) -> None:
    network(tmp_path)
    model = load_model(card(tmp_path))
    write_model(model, tmp_path / "written.yaml")
    written = load_model(str(tmp_path / "written.yaml"))
    assert (written.card.pictures, written.input_size) == (2, FRAME)
    np.testing.assert_allclose(answer(written, frame()), answer(model, frame()), rtol=1e-5, atol=1e-4)


def test_another_range_is_another_graph(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    network(tmp_path)
    found = []
    for text in (DEPTH, DEPTH, DEPTH.replace("[0.5, 8]", "[0, 16]")):
        model = load_kept_model(card(tmp_path, text))
        found.append(Engine(model, EngineConfig()).run(frame(), None).outputs["y"].copy())
    np.testing.assert_allclose(found[0], found[1], rtol=1e-4, atol=1e-3)
    assert np.abs(found[0] - found[2]).max() > 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "rgb .*, depth .*have each frame show the two side by side.*'pictures: 2'"),
        (f"{DEPTH}input_size: 32x100\n", r"takes images of \(32, 96\), not \(32, 100\)"),
        (
            "pictures: 2\n",
            r"rgb .*, depth .*\. Say in its model card what black and white are to an input of one channel",
        ),
    ],
)
def test_a_card_that_does_not_fit_is_refused(tmp_path: Path, text: str, message: str) -> None:
    network(tmp_path)
    with pytest.raises(ModelError, match=message):
        load_model(card(tmp_path, text))


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"sizes": (SIZE, (16, 24))}, "takes images of several sizes"),
        ({"sizes": (("h", "w"), ("h", "w"))}, "leaves its image size open"),
        ({"channels": (3, 2)}, r"takes \[1, 2, 32, 48\]"),
        ({"channels": (1, 1), "kind": TensorProto.UINT8}, "takes uint8"),
    ],
)
def test_a_file_that_does_not_fit_is_refused(tmp_path: Path, changed: dict[str, object], message: str) -> None:
    network(tmp_path, **changed)  # type: ignore[arg-type]
    with pytest.raises(ModelError, match=message):
        load_model(card(tmp_path))


def test_an_odd_width_of_frames_is_refused(tmp_path: Path) -> None:
    network(tmp_path, sizes=(("h", "w"), ("h", "w")))
    with pytest.raises(ModelError, match="choose an even width"):
        load_model(card(tmp_path, f"{DEPTH}input_size: 32x97\n"))


def test_a_file_with_one_input_takes_no_two_pictures(tmp_path: Path) -> None:
    network(tmp_path)
    model = onnx.load(tmp_path / "net.onnx")
    del model.graph.input[1], model.graph.node[1]
    model.graph.node[1].input[1] = "colours"
    onnx.save(model, tmp_path / "net.onnx")
    with pytest.raises(ModelError, match="must take 2 images, as its model card says, but its inputs are: rgb"):
        load_model(card(tmp_path))
