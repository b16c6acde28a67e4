"""A graph compiled for one engine: buffers allocated, kernels prepared, active sets planned."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from cacheinf_ros.engine.active import ActivePlan, ActiveSet
from cacheinf_ros.engine.buffers import MapBuffer
from cacheinf_ros.engine.kernels import ReferenceKernels, RowKernel
from cacheinf_ros.errors import EngineError
from cacheinf_ros.graph.ir import Concat, Conv, Global, Graph, Operator, Pointwise, Pool, resolve


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalStep:
    """Computes the active rows of one feature map."""

    kernels: tuple[RowKernel, ...]
    active: ActiveSet
    flops_per_pixel: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GlobalStep:
    """Computes a tensor from completed ones."""

    compute: Callable[[dict[str, Any]], Any]
    output: str
    target: MapBuffer | None


class Program:
    """The compiled graph; :meth:`run` computes what the active sets say."""

    def __init__(self, graph: Graph, kernels: ReferenceKernels) -> None:
        self._graph = graph
        self._kernels = kernels
        self.plan = ActivePlan(kernels, graph.tensors[graph.input].size)
        self._owned: list[MapBuffer] = []  # not part of another
        self._maps: dict[str, MapBuffer] = {}
        self._allocate()
        self._active: dict[str, ActiveSet] = {graph.input: self.plan.input}
        self._values: dict[str, Any] = {name: buffer.image for name, buffer in self._maps.items()}
        self._steps = [self._step(operator) for operator in graph.operators]
        self._dense_flops = sum(s.flops_per_pixel * s.active.pixels for s in self._steps if isinstance(s, LocalStep))

    @property
    def input(self) -> MapBuffer:
        """Where the model's input is written."""
        return self._maps[self._graph.input]

    @property
    def cache_bytes(self) -> int:
        """Memory of all cached feature maps."""
        return sum(buffer.rows.numel() * 4 for buffer in self._owned)

    @property
    def active_share(self) -> float:
        """FLOPs of the convolutions' active rows / those of all rows."""
        active = sum(s.flops_per_pixel * s.active.count for s in self._steps if isinstance(s, LocalStep))
        return active / self._dense_flops if self._dense_flops else 1.0

    def run(self) -> dict[str, torch.Tensor]:
        """Compute the active rows of every local operator and all of every global one; outputs by name."""
        for step in self._steps:
            if isinstance(step, LocalStep):
                if step.active.count:
                    for kernel in step.kernels:
                        kernel(step.active)
            else:
                value = step.compute(self._values)
                if step.target is None:
                    self._values[step.output] = value
                else:
                    step.target.image.copy_(value)
        return {name: self._values[tensor] for name, tensor in self._graph.outputs}

    def move(self, dx: float, dy: float) -> None:
        """Move every cached map by a shift given in pixels of the input, rounded to its own pixels."""
        height, width = self.input.size
        for buffer in self._owned:
            buffer.move(round(dx * buffer.size[1] / width), round(dy * buffer.size[0] / height))

    def _allocate(self) -> None:
        """Inputs of a concatenation live inside its output where they can, so that it costs nothing."""
        self._maps[self._graph.input] = self._new(self._graph.input)
        producers = {o.output: o for o in self._graph.operators}
        for operator in reversed(self._graph.operators):
            if isinstance(operator, Concat):
                self._allocate_concat(operator, producers)
        for operator in self._graph.operators:
            if operator.output not in self._maps and self._needs_map(operator):
                self._maps[operator.output] = self._new(operator.output)

    def _allocate_concat(self, operator: Concat, producers: dict[str, Operator]) -> None:
        whole = self._maps.setdefault(operator.output, None) or self._new(operator.output)  # type: ignore[arg-type]
        self._maps[operator.output] = whole
        first = 0
        for name in operator.inputs:
            count = self._graph.tensors[name].channels
            if name not in self._maps and not isinstance(producers[name], Global):
                self._maps[name] = whole.channels(first, count)
            first += count

    def _needs_map(self, operator: Operator) -> bool:
        """A global operator's output needs one only where a local operator reads it."""
        if not isinstance(operator, Global):
            return True
        readers = (o for o in self._graph.operators if operator.output in o.inputs)
        return any(not isinstance(reader, Global) for reader in readers)

    def _new(self, tensor: str) -> MapBuffer:
        spec = self._graph.tensors[tensor]
        self._owned.append(MapBuffer.allocate(spec.size, spec.channels, self._kernels.device))
        return self._owned[-1]

    def _step(self, operator: Operator) -> LocalStep | GlobalStep:
        if isinstance(operator, Global):
            return self._global_step(operator)
        kernels, active = self._prepare(operator)
        self._active[operator.output] = active
        flops = operator.flops_per_pixel if isinstance(operator, Conv) else 0
        return LocalStep(kernels=kernels, active=active, flops_per_pixel=flops)

    def _prepare(self, operator: Operator) -> tuple[tuple[RowKernel, ...], ActiveSet]:
        maps = [self._maps[name] for name in operator.inputs]
        target = self._maps[operator.output]
        sets = [self._active[name] for name in operator.inputs]
        if isinstance(operator, (Conv, Pool)):
            active = self.plan.united([self.plan.grown(sets[0], operator.window), *sets[1:]])
        else:
            active = self.plan.united(sets)
        if isinstance(operator, Conv):
            residual = maps[1] if len(maps) > 1 else None
            return (self._kernels.conv(operator, maps[0], target, residual),), active
        if isinstance(operator, Pool):
            return (self._kernels.pool(operator, maps[0], target),), active
        if isinstance(operator, Pointwise):
            named = dict(zip(operator.inputs, maps, strict=True))
            return (self._kernels.pointwise(operator, named, target),), active
        if isinstance(operator, Concat):
            return self._copies(operator, target), active
        raise EngineError(f"operator {operator.name} of type {type(operator).__name__} has no kernel")

    def _copies(self, operator: Concat, target: MapBuffer) -> tuple[RowKernel, ...]:
        copies, first = [], 0
        for name in operator.inputs:
            source, count = self._maps[name], self._graph.tensors[name].channels
            part = target.channels(first, count)
            if part.rows.data_ptr() != source.rows.data_ptr():
                copies.append(self._kernels.copy(source, part))
            first += count
        return tuple(copies)

    def _global_step(self, operator: Global) -> GlobalStep:
        target = self._maps.get(operator.output)
        if target is not None:
            self._active[operator.output] = self.plan.always(target.size)
        device = self._kernels.device
        arguments = _moved_to(operator.arguments, device)
        keywords = _moved_to(operator.keywords, device)

        def compute(values: dict[str, Any]) -> Any:
            return operator.call(*resolve(arguments, values.__getitem__), **resolve(keywords, values.__getitem__))

        return GlobalStep(compute=compute, output=operator.output, target=target)


def _moved_to(arguments: Any, device: torch.device) -> Any:
    if isinstance(arguments, torch.Tensor):
        return arguments.to(device)
    if isinstance(arguments, dict):
        return {key: _moved_to(value, device) for key, value in arguments.items()}
    if isinstance(arguments, (tuple, list)):
        return type(arguments)(_moved_to(item, device) for item in arguments)
    return arguments
