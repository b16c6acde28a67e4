# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""A model as an ONNX file for other engines: the file that it came from, one that was kept, or a new export."""

from __future__ import annotations

import io
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from cacheinf_ros.disk_cache import KeptFile, cache_folder
from cacheinf_ros.graph import Model, graph_hash, has_all_weights, quiet_torch

if TYPE_CHECKING:
    from onnx import GraphProto


def onnx_content(model: Model) -> bytes:
    """Return the serialised ONNX model. An export takes seconds to minutes, so it is kept for the next start.

    Raises:
        ImportError: the model must be exported, and a package that this needs is not installed.
    """
    own = _own_file(model)
    if own is not None:
        return own
    kept = KeptFile(
        path=cache_folder() / "onnx" / f"{graph_hash(model.graph)}-torch{torch.__version__}.onnx",
        what="exported model",
        remedy="exporting",
    )
    found = kept.read(bytes)
    if found is None:
        found = _exported(model)
        kept.write(found)
    return found


def _own_file(model: Model) -> bytes | None:
    """Return the content of the file that the model was loaded from, where it says exactly what the model does now."""
    path = Path(model.card.factory)
    if path.suffix.lower() != ".onnx" or model.card.weights is not None or not path.is_file():
        return None
    import onnx

    graph = onnx.load(path, load_external_data=False).graph
    constants = {tensor.name for tensor in graph.initializer}
    inputs = [each for each in graph.input if each.name not in constants]
    shapes = [tuple(side.dim_value for side in each.type.tensor_type.shape.dim) for each in inputs]
    takes_floats = all(each.type.tensor_type.elem_type == onnx.TensorProto.FLOAT for each in inputs)
    same_outputs = [each.name for each in graph.output] == [name for name, _ in model.graph.outputs]
    is_same = takes_floats and same_outputs and shapes == [(1, 3, *model.input_size)] and not _has_other_floats(graph)
    return path.read_bytes() if is_same and has_all_weights(graph) else None


def _has_other_floats(graph: GraphProto) -> bool:
    """Tell whether a part of a graph is in float16 or the like, which the model computes in float32."""
    from onnx import TensorProto, helper

    others = {TensorProto.FLOAT16, TensorProto.BFLOAT16, TensorProto.DOUBLE}
    said = [helper.get_attribute_value(a) for node in graph.node for a in node.attribute if a.name in ("to", "value")]
    kinds = [each.data_type if isinstance(each, TensorProto) else each for each in said]
    return not others.isdisjoint([tensor.data_type for tensor in graph.initializer]) or any(
        isinstance(kind, int) and kind in others for kind in kinds
    )


def _exported(model: Model) -> bytes:
    image = torch.zeros(1, 3, *model.input_size)
    with quiet_torch(), redirect_stdout(io.StringIO()):  # inside: the output belongs to the process too
        program = torch.onnx.export(model.module, (image,), dynamo=True, verbose=False)
    assert program is not None
    content: bytes = program.model_proto.SerializeToString()
    return content
