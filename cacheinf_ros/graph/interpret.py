"""The graph executed densely by plain torch: the trivial sibling of the engine, its oracle and its opponent."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn import functional

from cacheinf_ros.graph.ir import UNBOUNDED, Concat, Conv, Global, Graph, Operator, Pointwise, Pool, references, resolve
from cacheinf_ros.graph.window import Window


class DenseGraph(torch.nn.Module):
    """Computes every operator of a graph completely; returns the outputs by name."""

    def __init__(self, graph: Graph) -> None:
        super().__init__()
        self._graph = graph
        for i, operator in enumerate(graph.operators):
            if isinstance(operator, Conv):
                self.register_buffer(f"weight{i}", operator.weight.contiguous(memory_format=torch.channels_last))
                self.register_buffer(f"bias{i}", operator.bias)
        self._last_use = {name: i for i, o in enumerate(graph.operators) for name in _inputs(o)}

    def forward(self, image: torch.Tensor) -> dict[str, torch.Tensor]:
        """image: float32 [1, channels, height, width]."""
        values: dict[str, Any] = {self._graph.input: image}
        kept = {tensor for _, tensor in self._graph.outputs}
        for i, operator in enumerate(self._graph.operators):
            values[operator.output] = self._compute(i, operator, values)
            for name in set(_inputs(operator)) - kept:
                if self._last_use[name] == i:
                    del values[name]
        return {name: values[tensor] for name, tensor in self._graph.outputs}

    def _compute(self, index: int, operator: Operator, values: dict[str, Any]) -> Any:
        inputs = [values[name] for name in operator.inputs]
        if isinstance(operator, Conv):
            return self._conv(index, operator, inputs)
        if isinstance(operator, Pool):
            return _pool(operator, inputs[0])
        if isinstance(operator, Pointwise):
            return operator.call(*resolve(operator.arguments, values.__getitem__))
        if isinstance(operator, Concat):
            return torch.cat(inputs, 1)
        assert isinstance(operator, Global)
        keywords = resolve(operator.keywords, values.__getitem__)
        return operator.call(*resolve(operator.arguments, values.__getitem__), **keywords)

    def _conv(self, index: int, operator: Conv, inputs: list[torch.Tensor]) -> torch.Tensor:
        w = operator.window
        weight, bias = getattr(self, f"weight{index}"), getattr(self, f"bias{index}")
        result = functional.conv2d(inputs[0], weight, bias, w.stride, w.padding, w.dilation, operator.groups)
        if len(inputs) > 1:
            result = result.add_(inputs[1])
        if operator.clamp == UNBOUNDED:
            return result
        return result.relu_() if operator.clamp == (0.0, float("inf")) else result.clamp_(*operator.clamp)


def _inputs(operator: Operator) -> tuple[str, ...]:
    return references((operator.arguments, operator.keywords)) if isinstance(operator, Global) else operator.inputs


def _pool(operator: Pool, image: torch.Tensor) -> torch.Tensor:
    w = operator.window
    ceil_mode = w.out_size != tuple(_floor_size(w, axis) for axis in (0, 1))
    if operator.average:
        return functional.avg_pool2d(image, w.kernel, w.stride, w.padding, ceil_mode, operator.count_padding)
    return functional.max_pool2d(image, w.kernel, w.stride, w.padding, w.dilation, ceil_mode)


def _floor_size(window: Window, axis: int) -> int:
    reach = window.dilation[axis] * (window.kernel[axis] - 1) + 1
    return (window.in_size[axis] + 2 * window.padding[axis] - reach) // window.stride[axis] + 1
