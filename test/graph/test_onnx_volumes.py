# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""ONNX operators on volumes: the module and its graph compute what ONNX Runtime computes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
from graph.test_onnx import SIZE, assert_computes, floats, integers, saved
from onnx import NodeProto, helper

from cacheinf_ros.errors import ModelError
from cacheinf_ros.graph import load_model

DEPTH = 6  # a picture is doubled, and its colours are the slices
CONSTANTS = {
    "shape": integers(1, 1, DEPTH, *SIZE), "plain": floats(2, 1, 3, 2, 3), "back": floats(1, 2, 3, 3, 2),
    "doubled": np.array([1, 1, 2, 2, 2], np.float32), "halved": np.array([1, 1, 0.5, 1, 2], np.float32),
}  # fmt: skip

COUNTS, ASYMMETRIC = {"count_include_pad": 1}, {"coordinate_transformation_mode": "asymmetric"}


def volume_nodes(kind: str, *constants: str, **attributes: Any) -> list[NodeProto]:
    return [
        helper.make_node("Concat", ["x", "x"], ["both"], axis=1),
        helper.make_node("Reshape", ["both", "shape"], ["volume"]),
        helper.make_node(kind, ["volume", *constants], ["y"], **attributes),
    ]


@pytest.mark.parametrize(
    ("kind", "constants", "attributes"),
    [
        ("Conv", ["plain"], {"strides": [2, 1, 3], "dilations": [1, 2, 1], "pads": [1, 0, 2, 2, 1, 0]}),
        ("Conv", ["plain"], {"auto_pad": "SAME_UPPER", "strides": [1, 2, 2]}),
        ("Conv", ["plain"], {"auto_pad": "SAME_LOWER"}),
        ("ConvTranspose", ["back"], {"strides": [2, 1, 2], "output_padding": [1, 0, 1], "pads": [1, 1, 0, 0, 1, 1]}),
        ("ConvTranspose", ["back"], {"strides": [2, 2, 2], "auto_pad": "SAME_UPPER"}),
        ("ConvTranspose", ["back"], {"strides": [2, 2, 1], "output_shape": [13, 2 * SIZE[0] + 1, SIZE[1]]}),
        ("MaxPool", [], {"kernel_shape": [2, 3, 2], "strides": [1, 2, 2], "pads": [1, 0, 1, 0, 1, 0]}),
        ("MaxPool", [], {"kernel_shape": [3, 2, 2], "strides": [2, 2, 3], "ceil_mode": 1}),
        ("AveragePool", [], {"kernel_shape": [2, 2, 3], "strides": [2, 1, 1], "pads": [0, 1, 1, 1, 0, 1], **COUNTS}),
        ("AveragePool", [], {"kernel_shape": [3, 2, 2], "pads": [1, 1, 1, 1, 1, 1]}),
        ("Resize", ["", "doubled"], {"mode": "linear"}),
        ("Resize", ["", "doubled"], {"mode": "nearest", "nearest_mode": "floor", **ASYMMETRIC}),
        ("Resize", ["", "halved"], {"mode": "nearest"}),
    ],
)  # fmt: skip
def test_they_compute_what_onnx_runtime_computes(
    tmp_path: Path, kind: str, constants: list[str], attributes: dict[str, Any]
) -> None:
    path = tmp_path / "net.onnx"
    used = {name: CONSTANTS[name] for name in ["shape", *filter(None, constants)]}
    saved(path, volume_nodes(kind, *constants, **attributes), used)
    x = floats(1, 3, *SIZE)
    (expected,) = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"]).run(None, {"x": x})
    assert_computes(path, x, expected)


@pytest.mark.parametrize(
    ("kind", "constants", "reason"), [("Conv", ["line"], "1 axes"), ("Resize", ["", "doubled"], "cubic")]
)
def test_others_are_refused(tmp_path: Path, kind: str, constants: list[str], reason: str) -> None:
    path, attributes = tmp_path / "net.onnx", {"mode": "cubic"} if kind == "Resize" else {}
    shape = integers(1, 1, DEPTH * SIZE[0] * SIZE[1]) if kind == "Conv" else CONSTANTS["shape"]
    values = {"shape": shape, "line": floats(2, 1, 3), "doubled": CONSTANTS["doubled"]}
    used = {name: values[name] for name in ["shape", *filter(None, constants)]}
    saved(path, volume_nodes(kind, *constants, **attributes), used)
    with pytest.raises(ModelError, match=reason):
        load_model(str(path))
