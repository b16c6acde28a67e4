# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""ONNX Resize in all its modes: the module and its graph compute what ONNX Runtime computes.

The format's reference implementation takes sizes that are not whole for what they are before they are rounded down.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
import torch
from graph.test_onnx import SIZE, assert_computes, floats, integers, saved
from numpy.typing import NDArray
from onnx import helper

from cacheinf_ros.errors import ModelError
from cacheinf_ros.graph import load_model
from cacheinf_ros.graph.onnx_resize import resize

TRANSFORMATIONS = ("half_pixel", "pytorch_half_pixel", "asymmetric", "align_corners")
ROUNDINGS = ("floor", "ceil", "round_prefer_floor", "round_prefer_ceil")


def assert_resized(
    folder: Path, constants: dict[str, NDArray[Any]], transformation: str, *, mode: str = "nearest", **values: str
) -> None:
    inputs = ["x", "", "s"] if "s" in constants else ["x", "", "", "z"]
    node = helper.make_node("Resize", inputs, ["y"], mode=mode, coordinate_transformation_mode=transformation, **values)
    saved(folder / "net.onnx", [node], constants)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(folder / "net.onnx", options, providers=["CPUExecutionProvider"])
    x = floats(1, 3, *SIZE)
    (expected,) = session.run(None, {"x": x})
    assert_computes(folder / "net.onnx", x, expected)


@pytest.mark.parametrize("nearest", ROUNDINGS)
@pytest.mark.parametrize("transformation", TRANSFORMATIONS)
@pytest.mark.parametrize("scales", [(2, 2), (4, 3), (0.5, 0.4), (1.3, 2), (1, 1)])
def test_every_pixel_is_copied_from_where_onnx_says(
    tmp_path: Path, scales: tuple[float, float], transformation: str, nearest: str
) -> None:
    assert_resized(tmp_path, {"s": np.array([1, 1, *scales], np.float32)}, transformation, nearest_mode=nearest)


@pytest.mark.parametrize("nearest", ROUNDINGS)
@pytest.mark.parametrize("size", [(18, 24), (20, 5), (1, 12)])
def test_sizes_may_be_given_instead(tmp_path: Path, size: tuple[int, int], nearest: str) -> None:
    assert_resized(tmp_path, {"z": integers(1, 3, *size)}, "asymmetric", nearest_mode=nearest)


def test_the_places_of_tensorflow_by_hand() -> None:
    """Of four pixels made from two, the centres lie at 0.25, 0.75, 1.25 and 1.75."""
    x = torch.tensor([[[[1.0, 2.0]]]])
    found = [
        resize(
            x, None, np.array([1, 1, 1, 2]), coordinate_transformation_mode=b"tf_half_pixel_for_nn",
            nearest_mode=rounding.encode(),
        ).flatten().tolist()
        for rounding in ("floor", "ceil")
    ]  # fmt: skip
    assert found == [[1, 1, 2, 2], [2, 2, 2, 2]]


@pytest.mark.parametrize("mode", ["linear", "cubic"])
@pytest.mark.parametrize("transformation", ["half_pixel", "align_corners"])
@pytest.mark.parametrize("scales", [(2, 2), (0.5, 0.4), (1.3, 1.7), (0.6, 1)])
def test_images_are_resized_by_the_scale_and_not_by_the_ratio_of_the_sizes(
    tmp_path: Path, scales: tuple[float, float], transformation: str, mode: str
) -> None:
    assert_resized(tmp_path, {"s": np.array([1, 1, *scales], np.float32)}, transformation, mode=mode)


@pytest.mark.parametrize(
    ("inputs", "scales", "attributes", "opset"),
    [(["x", "s"], [1, 1, 2, 3], {}, 10), (["x", "", "s"], [3, 2], {"axes": [3, 2]}, 18)],
)
def test_other_forms_of_resize(
    tmp_path: Path, inputs: list[str], scales: list[float], attributes: dict[str, Any], opset: int
) -> None:
    """Version 10 has no region, and version 18 may name the axes."""
    node = helper.make_node("Resize", inputs, ["y"], mode="nearest", **attributes)
    saved(tmp_path / "net.onnx", [node], {"s": np.array(scales, np.float32)}, opset)
    x = floats(1, 3, *SIZE)
    result = load_model(str(tmp_path / "net.onnx")).module(torch.from_numpy(x))["y"]
    assert torch.equal(result, torch.from_numpy(x.repeat(2, 2).repeat(3, 3)))


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({"mode": "nearest", "coordinate_transformation_mode": "tf_crop_and_resize"}, "tf_crop_and_resize"),
        ({"mode": "linear", "coordinate_transformation_mode": "asymmetric"}, "linear, asymmetric"),
        ({"mode": "cubic", "cubic_coeff_a": -0.5}, "cubic_coeff_a -0.5"),
        ({"mode": "linear", "antialias": 1}, "antialias"),
        (
            {"mode": "linear", "keep_aspect_ratio_policy": "not_larger"},
            "the keep_aspect_ratio_policy stretch",
        ),
    ],
)
def test_resizing_that_torch_has_not_is_named(tmp_path: Path, attributes: dict[str, Any], message: str) -> None:
    node = helper.make_node("Resize", ["x", "r", "", "z"], ["y"], **attributes)
    saved(tmp_path / "net.onnx", [node], {"z": integers(1, 3, 6, 7), "r": floats(8)})
    with pytest.raises(ModelError, match=message):
        load_model(str(tmp_path / "net.onnx"))


def test_what_was_made_smaller_before_version_11_is_refused() -> None:
    """ONNX Runtime rounds places up there, which the format leaves open."""
    with pytest.raises(ModelError, match="Upsample by"):
        resize(torch.zeros(1, 3, *SIZE), np.array([1, 1, 0.5, 0.5], np.float32))


def test_what_has_no_effect_is_read() -> None:
    x = torch.rand(1, 3, *SIZE)
    larger = resize(x, None, None, np.array([1, 3, 18, 24]), mode=b"linear", antialias=1, cubic_coeff_a=-0.5)
    assert torch.equal(larger, resize(x, None, None, np.array([1, 3, 18, 24]), mode=b"linear"))


def test_a_side_that_a_scale_does_not_make_longer_is_refused() -> None:
    """Pixels are interpolated along it, although it keeps its length; torch would copy them."""
    with pytest.raises(ModelError, match="give it sizes"):
        resize(torch.zeros(1, 3, 12, 3), None, np.array([1, 1, 2.7, 1.3]), mode=b"linear")
