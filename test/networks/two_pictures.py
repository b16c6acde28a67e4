# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""A network with two inputs, colours and depth, as an ONNX file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

SIZE = (32, 48)  # of a picture


def network(
    folder: Path,
    channels: tuple[int, int] = (3, 1),
    sizes: tuple[tuple[int | str, int | str], ...] = (SIZE, SIZE),
    kind: int = TensorProto.FLOAT,
) -> str:
    """Write a network that scores four classes from two pictures, each of which goes through a convolution first."""
    rng = np.random.default_rng(0)
    shapes = {"v": (4, channels[0], 3, 3), "w": (4, channels[1], 3, 3), "u": (4, 4, 1, 1)}
    weights = {name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
    graph = helper.make_graph(
        [
            helper.make_node("Conv", ["rgb", "v"], ["colours"], pads=[1, 1, 1, 1], strides=[2, 2]),
            helper.make_node("Conv", ["depth", "w"], ["distances"], pads=[1, 1, 1, 1], strides=[2, 2]),
            helper.make_node("Add", ["colours", "distances"], ["both"]),
            helper.make_node("Relu", ["both"], ["rectified"]),
            helper.make_node("Conv", ["rectified", "u"], ["y"]),
        ],
        "net",
        [
            helper.make_tensor_value_info(name, kind, [1, count, *size])
            for name, count, size in zip(("rgb", "depth"), channels, sizes, strict=True)
        ],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 4, "height", "width"])],
        [numpy_helper.from_array(value, name) for name, value in weights.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])
    model.ir_version = 8
    onnx.save(model, folder / "net.onnx")
    return str(folder / "net.onnx")
