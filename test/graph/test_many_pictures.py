# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""ONNX files whose input takes many grey pictures, as slices of voxels, which each frame shows side by side."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from onnx.reference import ReferenceEvaluator
from oracle import assert_sequence_equals_dense
from pairs import assert_one_and_two_agree
from voxel_network import CARD, FRAME, SIZE, SLICES, card, network

from cacheinf_ros.engine import Engine, EngineConfig, Preprocessor, decode
from cacheinf_ros.engine.frame_placement import check_voxels, picture_size
from cacheinf_ros.errors import ConfigError, EngineError, ModelError
from cacheinf_ros.graph import Model, load_model
from cacheinf_ros.matching import MatchingConfig
from cacheinf_ros.mode import Mode
from cacheinf_ros.pipeline.map_producer import MapProducer
from cacheinf_ros.sources import parse_voxel_grid

KINDS = pytest.mark.parametrize("is_volume", [False, True], ids=["channels", "volume"])


def frame(seed: int = 1) -> NDArray[np.uint8]:
    """Return a frame of which some voxels are occupied."""
    occupied = np.random.default_rng(seed).random(FRAME) < 0.05
    return np.repeat(np.where(occupied, 255, 0).astype(np.uint8)[..., None], 3, axis=2)


def answer(model: Model, image: NDArray[np.uint8]) -> NDArray[np.float32]:
    with torch.inference_mode():
        return model.module(torch.from_numpy(Preprocessor(model.card).input(image)))["y"].numpy()


@KINDS
def test_each_slice_is_a_picture_from_left_to_right(tmp_path: Path, is_volume: bool) -> None:
    reference = ReferenceEvaluator(network(tmp_path, is_volume=is_volume))
    image = frame()
    grid = np.stack(np.split(image[..., 0], SLICES, axis=1)).astype(np.float32) / 255
    (expected,) = reference.run(None, {"grid": grid[None, None] if is_volume else grid[None]})
    model = load_model(card(tmp_path))
    assert (model.input_size, picture_size(model.card)) == (FRAME, SIZE)
    assert model.graph.unknown == ()
    np.testing.assert_allclose(answer(model, image), expected, rtol=1e-4, atol=1e-3)
    found = decode({"y": answer(model, image)}, model.card, FRAME)
    assert found.class_map is not None
    best = np.sort(expected[0], axis=0)
    is_clear = best[-1] - best[-2] > 1e-2  # far from all points every class has a score of 0
    np.testing.assert_array_equal(found.class_map[is_clear], expected[0].argmax(axis=0)[is_clear])


@KINDS
def test_cached_equals_dense(tmp_path: Path, is_volume: bool) -> None:
    network(tmp_path, is_volume=is_volume)
    assert_sequence_equals_dense(load_model(card(tmp_path)))


@KINDS
def test_two_machines_share_the_rows_of_all(tmp_path: Path, is_volume: bool) -> None:
    network(tmp_path, is_volume=is_volume)
    assert_one_and_two_agree(load_model(card(tmp_path)).graph, 0)


@KINDS
def test_what_a_voxel_changes_is_all_that_is_computed(tmp_path: Path, is_volume: bool) -> None:
    network(tmp_path, is_volume=is_volume)
    model = load_model(card(tmp_path))
    engine = Engine(model, EngineConfig(mode=Mode.EXACT))
    producer, config = MapProducer(MatchingConfig()), MatchingConfig()  # by which one voxel is within the threshold
    first, second = frame(), frame()
    second[12, 2 * SIZE[1] + 16] = 255 - second[12, 2 * SIZE[1] + 16]  # a voxel in the third slice
    for index, image in enumerate((first, second)):
        found = engine.run(image, producer.link(image, index, config).cache_map)
        np.testing.assert_allclose(found.outputs["y"], answer(model, image), rtol=1e-4, atol=1e-3)
    assert found.mode is Mode.EXACT
    assert 0 < found.active_share < 1 / 3


@pytest.mark.parametrize(
    ("text", "fits"),
    [
        (f"{SIZE[0]}x{SIZE[1]}x{SLICES}, 0..1, 0..1, 0..1", True),
        (f"{SLICES}x{SIZE[0]}x{SIZE[1]}, 0..1, 0..1, 0..1, xyz", True),
        (f"{SIZE[0]}x{SLICES}x{SIZE[1]}, 0..1, 0..1, 0..1, zxy", False),  # as large a frame, of 32 slices
        (f"{SIZE[0] // 2}x{SIZE[1]}x{SLICES}, 0..1, 0..1, 0..1", False),
    ],
)
def test_a_grid_that_is_not_the_models_is_refused(tmp_path: Path, text: str, fits: bool) -> None:
    network(tmp_path, is_volume=False)
    model = load_model(card(tmp_path))
    check_voxels(None, model.card)
    if fits:
        check_voxels(parse_voxel_grid(text), model.card)
    else:
        with pytest.raises(ConfigError, match=r"and card takes 6 of 24x32 pixels: give the cells and the order"):
            check_voxels(parse_voxel_grid(text), model.card)


def test_as_many_inputs_as_pictures_take_one_each(tmp_path: Path) -> None:
    import onnx
    from onnx import TensorProto, helper

    names = ["a", "b", "c"]
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 1, *SIZE]) for name in names]
    graph = helper.make_graph(
        [helper.make_node("Concat", names, ["y"], axis=1)],
        "three",
        values,
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 3, *SIZE])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])
    model.ir_version = 8
    onnx.save(model, tmp_path / "voxels.onnx")
    loaded = load_model(card(tmp_path, CARD.replace("6", "3")))
    image = frame()[:, : 3 * SIZE[1]]
    expected = np.stack(np.split(image[..., 0], 3, axis=1))[None] / 255
    np.testing.assert_allclose(answer(loaded, image), expected, atol=1e-5)


def test_the_card_gives_the_size_where_it_is_open(tmp_path: Path) -> None:
    network(tmp_path, is_volume=False, size=("h", "w"))
    assert load_model(card(tmp_path, f"{CARD}input_size: {FRAME[0]}x{FRAME[1]}\n")).input_size == FRAME
    with pytest.raises(ModelError, match="choose a width that 6 divides"):
        load_model(card(tmp_path, f"{CARD}input_size: 24x190\n"))


def test_frames_that_six_pictures_do_not_fill_are_refused(tmp_path: Path) -> None:
    network(tmp_path, is_volume=False)
    engine = Engine(load_model(card(tmp_path)), EngineConfig())
    with pytest.raises(EngineError, match="24x190 does not show 6 pictures of one size, side by side"):
        engine.run(np.zeros((24, 190, 3), np.uint8), None)


@KINDS
def test_the_error_without_a_card_says_what_the_card_must_say(tmp_path: Path, is_volume: bool) -> None:
    with pytest.raises(ModelError, match=r"If it takes 6 pictures, such as slices of voxels, .*'pictures: 6'"):
        load_model(network(tmp_path, is_volume=is_volume))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            CARD.replace("6", "5"),
            r"must take 5 images, as its model card says, but its inputs are: grid \[1, 6, 24, 32\]",
        ),
        (
            CARD.replace("6", "5"),
            r"An input that takes all of them is \[1, 5, height, width\] or \[1, 1, 5, height, width\]",
        ),
        (CARD.replace("one_channel_range: [0, 1]\n", ""), "Say in its model card what black and white are"),
    ],
)
def test_a_card_that_does_not_fit_is_refused(tmp_path: Path, text: str, message: str) -> None:
    network(tmp_path, is_volume=False)
    with pytest.raises(ModelError, match=message):
        load_model(card(tmp_path, text))
