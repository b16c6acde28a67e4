# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Split a network into a trunk and a head: the last linear layer, and everything before it, which is the trunk.

The trunk's output, one vector of features per image, is what other heads can be trained on (MCDNN, section 5.2.1).
"""

from __future__ import annotations

from dataclasses import replace

import torch

from cacheinf_ros.errors import ModelError
from cacheinf_ros.graph.ir import Conv, GlobalMean, Graph, Operator, TensorSpec
from cacheinf_ros.graph.window import Window

FEATURES = "features"
"""The name of the output of a trunk: float32 [1, channels, 1, 1] or [1, channels]."""
_LOGITS = "logits"
_POOLED = "features_mean"


def last_layer(graph: Graph) -> Conv:
    """Return the linear layer, or 1x1 convolution, that makes the graph's only output.

    Raises:
        ModelError: there is no such layer.
    """
    made_by = {operator.output: operator for operator in graph.operators}
    last = made_by.get(graph.outputs[0][1])
    is_only = len(graph.outputs) == 1
    if is_only and isinstance(last, Conv) and last.window.is_pointwise and last.groups == 1 and len(last.inputs) == 1:
        return last
    found = ", ".join(f"{name} made by {type(made_by.get(tensor)).__name__}" for name, tensor in graph.outputs)
    raise ModelError(
        f"a head is trained in place of a linear layer or 1x1 convolution that makes the only output; here: {found}. "
        "Name the tensor to cut at"
    )


def trunk_graph(graph: Graph, tensor: str = "") -> Graph:
    """Return the part of a graph that computes a tensor, whose mean over all pixels becomes the only output.

    Args:
        tensor: a feature map or vector; "": the input of :func:`last_layer`.

    Raises:
        ModelError: there is no such feature map.
    """
    tensor = tensor or last_layer(graph).inputs[0]
    spec = graph.tensors.get(tensor)
    if spec is None or not spec.is_map or tensor == graph.input:
        maps = [o.output for o in graph.operators if o.output in graph.tensors and graph.tensors[o.output].is_map]
        raise ModelError(f"there is no feature map {tensor!r} to cut at; choose from {', '.join(maps)}")
    operators = _leading_to(graph, tensor)
    tensors = {name: graph.tensors[name] for name in (graph.input, *(o.output for o in operators))}
    if spec.pixels > 1:
        pooled = TensorSpec(name=_POOLED, shape=(1, spec.channels, 1, 1))
        operators = (*operators, GlobalMean(name=_POOLED, inputs=(tensor,), output=_POOLED))
        tensors[_POOLED], tensor = pooled, _POOLED
    return replace(graph, outputs=((FEATURES, tensor),), operators=operators, tensors=tensors)


def with_head(trunk: Graph, weight: torch.Tensor, bias: torch.Tensor) -> Graph:
    """Build a trunk followed by a linear layer, whose values [1, classes] are the only output.

    Args:
        trunk: graph from :func:`trunk_graph`.
        weight: float32 [classes, channels].
        bias: float32 [classes].

    Raises:
        ModelError: the head is for other features.
    """
    features = trunk.tensors[trunk.outputs[0][1]]
    classes, channels = weight.shape
    if features.pixels != 1 or features.channels != channels or bias.shape != (classes,):
        raise ModelError(
            f"a head with weights {tuple(weight.shape)} and {tuple(bias.shape)} does not fit features {features.shape}"
        )
    head = Conv(
        name=_LOGITS,
        inputs=(features.name,),
        output=_LOGITS,
        weight=weight.reshape(classes, channels, 1, 1).contiguous(),
        bias=bias,
        window=Window(in_size=(1, 1), out_size=(1, 1), kernel=(1, 1)),
        groups=1,
    )
    tensors = {**trunk.tensors, _LOGITS: TensorSpec(name=_LOGITS, shape=(1, classes))}
    return replace(trunk, outputs=((_LOGITS, _LOGITS),), operators=(*trunk.operators, head), tensors=tensors)


def _leading_to(graph: Graph, tensor: str) -> tuple[Operator, ...]:
    wanted, found = {tensor}, []
    for operator in reversed(graph.operators):
        if operator.output in wanted:
            wanted.update(operator.inputs)
            found.append(operator)
    return tuple(reversed(found))
