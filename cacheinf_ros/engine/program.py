"""A graph compiled for one engine: buffers allocated, kernels prepared, steps planned."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch

from cacheinf_ros.engine.buffers import MapBuffer, allocate_maps
from cacheinf_ros.engine.execution.active import ActiveSet
from cacheinf_ros.engine.execution.growth import Border
from cacheinf_ros.engine.execution.native import NEVER, NativeExecutor, PreparedKernel
from cacheinf_ros.engine.execution.plan import Plan, make_plan
from cacheinf_ros.engine.execution.reference import ReferenceExecutor
from cacheinf_ros.engine.execution.steps import Compute
from cacheinf_ros.engine.kernels import Kernels, NativeKernels, ReferenceKernels
from cacheinf_ros.engine.truncation import Truncation
from cacheinf_ros.engine.views import View, views
from cacheinf_ros.graph.ir import Global, Graph, Operator


class Program:
    """The compiled graph; :meth:`run` computes what depends on the changed pixels of the input."""

    def __init__(self, graph: Graph, kernels: Kernels) -> None:
        self.graph = graph
        self._kernels = kernels
        self._reference = ReferenceKernels(kernels.device)
        self._owned: list[MapBuffer] = []  # not part of another
        self.maps: dict[str, MapBuffer] = {}
        self._allocate()
        self._values: dict[str, Any] = {name: self._shaped(name) for name in self.maps}
        self._prepared: dict[str, PreparedKernel] = {}  # by the operator's output: weights are packed once
        self._switch_from: dict[str, float] = {}
        self.truncate({})

    @property
    def input(self) -> MapBuffer:
        """Where the model's input is written."""
        return self.maps[self.graph.input]

    @property
    def changed_input(self) -> ActiveSet:
        """The pixels of the input that changed, to be filled before :meth:`run`."""
        return self.plan.input

    @property
    def cache_bytes(self) -> int:
        """Memory of all cached feature maps."""
        return sum(buffer.rows.numel() * 4 for buffer in self._owned)

    @property
    def active_share(self) -> float:
        """FLOPs of the convolutions' active pixels / those of all pixels."""
        if not self._dense_flops:
            return 1.0
        return sum(step.flops_per_pixel * step.active.count for step in self._convolutions) / self._dense_flops

    @property
    def active_shares(self) -> dict[str, float]:
        """By operator: active pixels / all pixels in the last run."""
        return {step.operator.output: step.active.count / step.active.pixels for step in self._computations}

    @property
    def microseconds(self) -> dict[str, float]:
        """By operator: what its kernel took in the last run."""
        times = zip(self.plan.steps, self._executor.microseconds.tolist(), strict=True)
        return {step.operator.output: took for step, took in times if isinstance(step, Compute)}

    def timeable(self) -> Iterator[tuple[Operator, ActiveSet]]:
        """The operators that compiled kernels compute, and the sets that say on which pixels."""
        for step in self._computations:
            if step.operator.output in self.graph.tensors and self._prepared[step.operator.output].call is not None:
                yield step.operator, step.active

    def has_alternative(self, output: str) -> bool:
        """Whether there is a second kernel, for many pixels."""
        return self._prepared[output].alternative is not None

    def time(self, output: str, *, alternative: bool) -> float:
        """Microseconds of one of the :meth:`timeable` operators on the pixels that its set holds."""
        assert isinstance(self._executor, NativeExecutor)
        index = self._index[output]
        self._executor.switch_from(index, 0 if alternative else NEVER)
        took = self._executor.time(index)
        self._switch(output)
        return took

    def switch_kernels(self, shares: Mapping[str, float]) -> None:
        """By operator's output: the share of active pixels from which on the second kernel is used."""
        self._switch_from = dict(shares)
        for output in self._index:
            self._switch(output)

    def truncate(self, truncations: Mapping[str, Truncation]) -> None:
        """From now on hold small changes of these tensors back, and of no others; the cache stays as it is."""
        self.plan: Plan = make_plan(self.graph, self.maps, truncations)
        steps = self.plan.steps
        for step in steps:
            if isinstance(step, Compute) and step.operator.output not in self._prepared:
                self._prepared[step.operator.output] = self._prepare(step)
        self._computations = [step for step in steps if isinstance(step, Compute)]
        self._convolutions = [step for step in self._computations if step.flops_per_pixel]
        self._dense_flops = sum(step.flops_per_pixel * step.active.pixels for step in self._convolutions)
        self._index = {step.operator.output: i for i, step in enumerate(steps) if isinstance(step, Compute)}
        tensors = self.graph.tensors
        if isinstance(self._kernels, NativeKernels):
            library, threads = self._kernels.library, self._kernels.threads
            self._executor: NativeExecutor | ReferenceExecutor = NativeExecutor(
                steps, self._prepared, self._values, tensors, library, threads
            )
        else:
            functions = {name: kernel.function for name, kernel in self._prepared.items() if kernel.function}
            self._executor = ReferenceExecutor(steps, functions, self._values, tensors, self._kernels.device)
        for output in self._index:
            self._switch(output)

    def run(self, *, outside: Border = Border.NONE, refresh: bool = False) -> dict[str, torch.Tensor]:
        """Compute everything that depends on the changed input; outputs by name, valid until the next run.

        Args:
            outside: beside which sides padding counts as changed: where the picture moved, with its border.
            refresh: no change is held back.
        """
        self._executor.run(outside=outside, refresh=refresh)
        return self.outputs

    def awake(self) -> AbstractContextManager[None]:
        """Around all that a frame needs: see :meth:`NativeKernels.awake`."""
        return self._kernels.awake() if isinstance(self._kernels, NativeKernels) else nullcontext()

    @property
    def outputs(self) -> dict[str, torch.Tensor]:
        """By name, as the last run left them."""
        return {name: self._values[tensor] for name, tensor in self.graph.outputs}

    def shift(self, dx: int, dy: int) -> None:
        """Move every cached map by whole pixels of its own; what enters counts as changed, however little.

        Args:
            dx, dy: right and down, in pixels of the input: multiples of :func:`shift_unit`.
        """
        height, width = self.input.size
        moves = [(b, dx * b.size[1] // width, dy * b.size[0] // height) for b in self._owned if b.rows.shape[0] > 1]
        if isinstance(self._kernels, NativeKernels):
            self._kernels.shift(moves)
            return
        for buffer, right, down in moves:
            buffer.move(right, down)
            buffer.expose(right, down)

    def move(self, dx: float, dy: float) -> None:
        """Move every cached map by a shift given in pixels of the input, rounded to its own pixels."""
        height, width = self.input.size
        for buffer in self._owned:
            buffer.move(round(dx * buffer.size[1] / width), round(dy * buffer.size[0] / height))

    def _allocate(self) -> None:
        inside = views(self.graph)
        names = [self.graph.input, *(o.output for o in self.graph.operators if self._needs_map(o))]
        whole = [name for name in names if name not in inside]
        specs = [self.graph.tensors[name] for name in whole]
        self._owned = allocate_maps([(spec.size, spec.channels) for spec in specs], self._kernels.device)
        self.maps.update(zip(whole, self._owned, strict=True))
        for name in names:
            self._map(name, inside)

    def _map(self, tensor: str, inside: Mapping[str, View]) -> MapBuffer:
        if tensor not in self.maps:
            view = inside[tensor]
            self.maps[tensor] = self._map(view.owner, inside).channels(view.first, view.count)
        return self.maps[tensor]

    def _needs_map(self, operator: Operator) -> bool:
        """A global operator's output needs one only where a local operator reads it."""
        if not isinstance(operator, Global):
            return True
        readers = (o for o in self.graph.operators if operator.output in o.inputs)
        return any(not isinstance(reader, Global) for reader in readers)

    def _shaped(self, name: str) -> torch.Tensor:
        image = self.maps[name].image
        return image if len(self.graph.tensors[name].shape) == 4 else image[:, :, 0, 0]

    def _prepare(self, step: Compute) -> PreparedKernel:
        """The compiled kernels, or where there are none the reference's function."""
        operator, sources, channels = step.operator, step.sources, step.out.rows.shape[1]
        if isinstance(self._kernels, NativeKernels):
            call = self._kernels.prepare(operator, sources, channels)
            if call is not None:
                return PreparedKernel(call=call, alternative=self._kernels.alternative(call))
        return PreparedKernel(function=self._reference.prepare(operator, sources, channels))

    def _switch(self, output: str) -> None:
        """Tell the executor from how many pixels on an operator uses its second kernel."""
        if not isinstance(self._executor, NativeExecutor) or self._prepared[output].call is None:
            return
        index = self._index[output]
        step = self.plan.steps[index]
        assert isinstance(step, Compute)
        share = self._switch_from.get(output, 2.0)
        self._executor.switch_from(index, round(share * step.active.pixels) if share <= 1 else NEVER)
