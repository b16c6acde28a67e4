# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Load ONNX files as torch modules, so that they are exported like any other model.

Shapes and constants are folded first (onnxslim); what remains is executed node by node by torch calls.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxslim
import torch
from onnx import NodeProto, numpy_helper

from cacheinf_ros.errors import ModelError
from cacheinf_ros.graph.card import ModelCard
from cacheinf_ros.graph.fixed_inputs import fix_inputs
from cacheinf_ros.graph.onnx_input import picture_inputs
from cacheinf_ros.graph.onnx_operators import EARLIER_OPERATORS, OPERATORS, dequantised
from cacheinf_ros.graph.onnx_size import check_size
from cacheinf_ros.graph.picture_inputs import PictureInputs

_VERSION_OF_TODAY = 13  # of the operator set: what changed since does not matter here
# The constants of these operators are factors and limits that must be numbers when the model is exported.
_WITH_STATIC_CONSTANTS = {"Resize", "Upsample", "Clip", "Pad", "Pow", "QuantizeLinear", "DequantizeLinear"}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Step:
    """One node of the ONNX graph.

    Attributes:
        takes_static: whether constants reach it as arrays; another node may take the same one as a tensor.
    """

    call: Callable[..., Any]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: dict[str, Any]
    takes_static: bool


class OnnxModule(torch.nn.Module):
    """Executes the nodes of a folded ONNX graph; returns a dictionary of its outputs.

    Attributes:
        input_size: (height, width) that the file fixes.
    """

    def __init__(self, model: onnx.ModelProto, inputs: PictureInputs, fixed: frozenset[str] = frozenset()) -> None:
        """Prepare.

        Args:
            inputs: makes what the graph takes of a frame.
            fixed: constants that are no weights, so that no file of weights replaces them.
        """
        super().__init__()
        self.input_size = inputs.size
        self._inputs, self._fixed = inputs, fixed
        graph = model.graph
        earlier = any(each.domain == "" and each.version < _VERSION_OF_TODAY for each in model.opset_import)
        self._operators = {**OPERATORS, **EARLIER_OPERATORS} if earlier else OPERATORS
        self._constants: dict[str, str] = {}  # ONNX name -> buffer name
        self._static: dict[str, np.ndarray] = {}  # shapes, indices and limits stay out of the traced graph
        self._static_names = {name for n in graph.node if n.op_type in _WITH_STATIC_CONSTANTS for name in n.input}
        self._tensor_names = {name for n in graph.node if n.op_type not in _WITH_STATIC_CONSTANTS for name in n.input}
        for tensor in graph.initializer:
            self._hold(tensor.name, numpy_helper.to_array(tensor))
        self._steps: list[_Step] = []
        for node in graph.node:
            self._add(node)
        self._outputs = [value.name for value in graph.output]

    def _hold(self, name: str, array: np.ndarray) -> None:
        is_integer = array.dtype.kind in "iub"
        if array.dtype.kind in "fV":  # float16 and bfloat16 too: the image is float32, and what is computed of it
            array = array.astype(np.float32)
        if is_integer or name in self._static_names:
            self._static[name] = array
        if is_integer or name not in self._tensor_names:
            return
        self._constants[name] = f"constant_{len(self._constants)}"
        is_weight = name not in self._fixed
        self.register_buffer(self._constants[name], torch.from_numpy(np.array(array)), persistent=is_weight)

    def _add(self, node: NodeProto) -> None:
        attributes = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
        if node.op_type == "Constant":
            self._hold(node.output[0], numpy_helper.to_array(attributes["value"]))
            return
        if node.op_type == "DequantizeLinear" and node.input[0] in self._static:
            self._hold(node.output[0], dequantised(*(self._static[name] for name in node.input), **attributes))
            return
        if node.op_type == "Split":
            attributes.setdefault("num_outputs", len(node.output))
        if node.op_type not in self._operators:
            raise ModelError(
                f"the ONNX operator {node.op_type} (node {node.name or node.output[0]!r}) is not supported"
            )
        self._steps.append(
            _Step(
                call=self._operators[node.op_type],
                inputs=tuple(node.input),
                outputs=tuple(node.output),
                attributes=attributes,
                takes_static=node.op_type in _WITH_STATIC_CONSTANTS,
            )
        )

    def forward(self, image: torch.Tensor) -> dict[str, torch.Tensor]:
        """Compute the outputs, by name, of a frame, float32 [1, 3, height, width], RGB where the graph takes grey."""
        values: dict[str, Any] = {"": None, **self._inputs(image), **self._static}
        values |= {name: getattr(self, buffer) for name, buffer in self._constants.items()}
        for step in self._steps:
            seen = {**values, **self._static} if step.takes_static else values
            results = step.call(*(seen[name] for name in step.inputs), **step.attributes)
            values |= zip(step.outputs, results if isinstance(results, (tuple, list)) else (results,), strict=False)
        return {name: values[name] for name in self._outputs}


def onnx_module(path: Path, card: ModelCard) -> OnnxModule:
    """Read an ONNX file.

    Args:
        path: path of the file.
        card: may say the size of images where the file leaves it open, which values they have, and what the file's
            other inputs are.

    Raises:
        ModelError: the file is missing, not ONNX, takes something else than an image that the card describes, cannot be
            computed at this size, or uses an operator that is not supported.
    """
    if not path.is_file():
        raise ModelError(f"model file {path} does not exist")
    try:
        model = onnx.load(path)
        onnx.checker.check_model(model)
    except Exception as error:  # protobuf and the checker have no common base
        raise ModelError(f"{path} is not an ONNX model: {' '.join(str(error).split())[:200]}") from None
    fix_inputs(model, path, card.fixed_inputs)
    inputs = picture_inputs(model, path, card)
    shapes = [f"{each.name}:{','.join(map(str, each.shape))}" for each in inputs]
    try:
        model = onnxslim.slim(model, model_check=False, input_shapes=shapes)
    except Exception as error:  # whatever its shape inference stumbles over
        raise ModelError(f"{path}: its constants cannot be folded: {error}") from None
    if any(node.op_type == "Shape" for node in model.graph.node):  # it is folded where the shapes are known
        check_size(path, inputs)
    fixed = frozenset(each.name for each in card.fixed_inputs)
    return OnnxModule(model, PictureInputs(inputs, card), fixed).eval()
