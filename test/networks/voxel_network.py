# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Networks that score each cell of a ground plan from the slices of a voxel grid, as ONNX files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

SLICES, SIZE = 6, (24, 32)
FRAME = (SIZE[0], SLICES * SIZE[1])
CARD = "factory: voxels.onnx\npictures: 6\none_channel_range: [0, 1]\ndecoder: {kind: map}\n"


def network(folder: Path, *, is_volume: bool, size: tuple[int | str, int | str] = SIZE, slices: int = SLICES) -> str:
    """Write a network of two convolutions, in three dimensions where its input is a volume [1, 1, slices, h, w]."""
    rng = np.random.default_rng(0)
    if is_volume:
        shapes = {"v": (4, 1, 3, 3, 3), "w": (3, 4 * slices, 1, 1)}
        first = [helper.make_node("Conv", ["grid", "v"], ["felt"], pads=[1] * 6)]
        last = [
            helper.make_node("Reshape", ["rectified", "plan"], ["flat"]),
            helper.make_node("Conv", ["flat", "w"], ["y"]),
        ]
    else:
        shapes = {"v": (8, slices, 3, 3), "w": (3, 8, 1, 1)}
        first = [helper.make_node("Conv", ["grid", "v"], ["felt"], pads=[1] * 4)]
        last = [helper.make_node("Conv", ["rectified", "w"], ["y"])]
    weights = [numpy_helper.from_array(rng.normal(size=shape).astype(np.float32), n) for n, shape in shapes.items()]
    plan = numpy_helper.from_array(np.array([1, 4 * slices, *SIZE]), "plan")
    graph = helper.make_graph(
        [*first, helper.make_node("Relu", ["felt"], ["rectified"]), *last],
        "voxels",
        [helper.make_tensor_value_info("grid", TensorProto.FLOAT, [1, *([1] if is_volume else []), slices, *size])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 3, *size])],
        [*weights, *([plan] if is_volume else [])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])
    model.ir_version = 8
    onnx.save(model, folder / "voxels.onnx")
    return str(folder / "voxels.onnx")


def card(folder: Path, text: str = CARD) -> str:
    """Write the model card beside the network; returns its path."""
    (folder / "card.yaml").write_text(text)
    return str(folder / "card.yaml")
