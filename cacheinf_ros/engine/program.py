# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""A graph compiled for one engine: buffers allocated, kernels prepared, steps planned."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace

import torch

from cacheinf_ros.engine.buffers import MapBuffer, allocate_maps, maps_at
from cacheinf_ros.engine.caching import EVERYTHING, Caching
from cacheinf_ros.engine.execution.active import ActiveSet
from cacheinf_ros.engine.execution.native import NEVER, NativeExecutor, PreparedKernel
from cacheinf_ros.engine.execution.plan import Plan, Planner
from cacheinf_ros.engine.execution.propagation import Border
from cacheinf_ros.engine.execution.reference import ReferenceExecutor
from cacheinf_ros.engine.execution.steps import Call, Compute
from cacheinf_ros.engine.execution.tensors import Tensors
from cacheinf_ros.engine.kernels import Kernels, NativeKernels, ReferenceKernels
from cacheinf_ros.engine.layout import lay_out
from cacheinf_ros.engine.lifetimes import lifetimes, with_poison
from cacheinf_ros.engine.partition.partition import Partition, PartitionSpace, Side, owned
from cacheinf_ros.engine.partition.replicas import TensorReplicas
from cacheinf_ros.engine.truncation import NOTHING_CHANGED, Truncation
from cacheinf_ros.graph.ir import Global, Graph, Operator
from cacheinf_ros.memory.optimal import optimal

_SEARCH_S = 2.0  # for an arena smaller than what the greedy strategies find, where there may be one


class Program:
    """The compiled graph; :meth:`run` computes what depends on the changed pixels of the input.

    Attributes:
        caching: which maps are kept between runs.
        maps: all of them; what is not kept holds something only while :meth:`run` needs it.
        arena_bytes: of the block in which the maps lie that are not kept.
        splitting: what can be split; None: there is no other machine.
        shares: what is known of the other machine's copy of each tensor.
    """

    def __init__(
        self,
        graph: Graph,
        kernels: Kernels,
        caching: Caching = EVERYTHING,
        *,
        debug_memory: bool = False,
        side: Side | None = None,
    ) -> None:
        """Compile.

        Args:
            debug_memory: overwrite maps with NaN where they should not be read: slow.
            side: which of two machines this is; None: there is no other. All maps must be kept where there is one.

        Where the greedy strategies leave room, a smaller arena is searched for :data:`_SEARCH_S` seconds.
        """
        self.graph = graph
        self.layout = lay_out(graph)
        self.caching = caching
        self.maps: dict[str, MapBuffer] = {}
        self.arena_bytes = 0
        self._debug_memory = debug_memory
        self._kernels = kernels
        self._reference = ReferenceKernels(kernels.device)
        self._planner = Planner(self.layout)
        self.splitting = PartitionSpace(self.layout) if side else None
        self.shares = TensorReplicas.of(self.splitting.shapes) if self.splitting else None
        self._side = side
        self._kept: list[MapBuffer] = []  # not part of another
        self._allocate()
        values = {name: self._shaped(name) for name in self.maps}
        self._tensors = Tensors(maps=self.maps, values=values, specs=graph.tensors)
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
        """Memory of the feature maps that are kept."""
        return sum(buffer.rows.numel() * 4 for buffer in self._kept)

    @property
    def kept(self) -> list[str]:
        """Outputs of the graph's operators that are computed pixel by pixel and kept."""
        layout, dropped = self.layout, self.caching.dropped
        local = (o.output for o in layout.operators if not isinstance(o, Global))
        return [n for n in local if n in self.graph.tensors and layout.root(n) not in dropped]

    @property
    def active_share(self) -> float:
        """FLOPs of the convolutions' active pixels / those of all pixels."""
        if not self._dense_flops:
            return 1.0
        return sum(step.flops_per_pixel * step.active.count for step in self._convolutions) / self._dense_flops

    @property
    def active_shares(self) -> dict[str, float]:
        """By operator: active pixels / all pixels in the last run."""
        return self._by_operator((step, step.active.count / step.active.pixels) for step in self._computations)

    @property
    def microseconds(self) -> dict[str, float]:
        """By operator: what its kernel took in the last run."""
        times = zip(self.plan.steps, self._executor.microseconds.tolist(), strict=True)
        return self._by_operator((step, took) for step, took in times if isinstance(step, Compute))

    @property
    def growth_microseconds(self) -> float:
        """What filling active sets took in the last run."""
        times = zip(self.plan.steps, self._executor.microseconds.tolist(), strict=True)
        return sum(took for step, took in times if not isinstance(step, (Compute, Call)))

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
        index = self._index[output][0]
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
        self.plan: Plan = self._planner.plan(self.caching, truncations, self.shares)
        if self._debug_memory:
            self.plan = replace(self.plan, steps=with_poison(self.plan.steps, self.layout, self.caching))
        steps = self.plan.steps
        for step in steps:
            if isinstance(step, Compute) and step.operator.output not in self._prepared:
                self._prepared[step.operator.output] = self._prepare(step)
        self._computations = [step for step in steps if isinstance(step, Compute)]
        self._convolutions = [step for step in self._computations if step.flops_per_pixel]
        whole = {step.operator.output: step.flops_per_pixel * step.active.pixels for step in self._convolutions}
        self._dense_flops = sum(whole.values())
        self._index: dict[str, list[int]] = {}
        for i, step in enumerate(steps):
            if isinstance(step, Compute):
                self._index.setdefault(step.operator.output, []).append(i)
        if isinstance(self._kernels, NativeKernels):
            library, threads = self._kernels.library, self._kernels.threads
            self._executor: NativeExecutor | ReferenceExecutor = NativeExecutor(
                steps, self._prepared, self._tensors, library, threads, self.shares
            )
        else:
            functions = {name: kernel.function for name, kernel in self._prepared.items() if kernel.function}
            self._executor = ReferenceExecutor(steps, functions, self._tensors, self._kernels.device, self.shares)
        for output in self._index:
            self._switch(output)

    def split(self, split: Partition) -> None:
        """From now on share the work with another machine so.

        Raises:
            EngineError: it cannot be executed.
        """
        assert self.splitting is not None and self.shares is not None and self._side is not None
        self.splitting.check(split)
        for share in self.shares:
            share.sent = share.received = (0, 0)
        for name, height in self.splitting.heights.items():
            self.shares[name].own = owned(split, height, name, self._side)
        for crossing in self.splitting.crossings(split):
            share = self.shares[crossing.tensor]
            if crossing.to is self._side:
                share.received = crossing.rows
            else:
                share.sent = crossing.rows
        if isinstance(self._executor, NativeExecutor):
            self._executor.share_anew()

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
        """By name, as the last run left them; without those that another machine computed and this one never read."""
        values = self._tensors.values
        return {name: values[tensor] for name, tensor in self.graph.outputs if tensor in values}

    def shift(self, dx: int, dy: int) -> None:
        """Move every cached map by whole pixels of its own; what enters counts as changed, however little.

        Args:
            dx, dy: right and down, in pixels of the input: multiples of :func:`shift_unit`.
        """
        height, width = self.input.size
        for share in self.shares or ():
            share.move(dx * share.size[1] // width, dy * share.size[0] // height)
        moves = [(b, dx * b.size[1] // width, dy * b.size[0] // height) for b in self._kept if b.rows.shape[0] > 1]
        if isinstance(self._kernels, NativeKernels):
            self._kernels.shift(moves)
            return
        for buffer, right, down in moves:
            buffer.move(right, down)
            buffer.expose(right, down)

    def move(self, dx: float, dy: float) -> None:
        """Move every cached map by a shift given in pixels of the input, rounded to its own pixels."""
        height, width = self.input.size
        for buffer in self._kept:
            buffer.move(round(dx * buffer.size[1] / width), round(dy * buffer.size[0] / height))

    def _allocate(self) -> None:
        """Maps that are kept lie behind one another, the others where the memory planner places them."""
        layout, dropped = self.layout, self.caching.dropped
        kept = [name for name in layout.maps if name not in layout.views and name not in dropped]
        specs = [layout.spec(name) for name in kept]
        self._kept = allocate_maps([(spec.size, spec.channels) for spec in specs], self._kernels.device)
        self.maps.update(zip(kept, self._kept, strict=True))
        if dropped:
            self._allocate_arena()
        for name in layout.maps:
            if layout.root(name) in self.maps:  # otherwise nobody reads it
                self._map(name)

    def _allocate_arena(self) -> None:
        layout = self.layout
        # where changes may be held back, operators share fewest sets and most is computed in several steps
        longest = self._planner.plan(self.caching, dict.fromkeys(self.kept, NOTHING_CHANGED))
        records = lifetimes(longest.steps, layout, self.caching)
        placement = optimal(records, time_limit_s=_SEARCH_S).placement
        self.arena_bytes = placement.size
        specs = [layout.spec(record.name) for record in records]
        shapes = [(spec.size, spec.channels) for spec in specs]
        arena = maps_at(placement.offsets, placement.size, shapes, self._kernels.device)
        self.maps.update(zip((record.name for record in records), arena, strict=True))

    def _map(self, tensor: str) -> MapBuffer:
        if tensor not in self.maps:
            view = self.layout.views[tensor]
            self.maps[tensor] = self._map(view.owner).channels(view.first, view.count)
        return self.maps[tensor]

    def _shaped(self, name: str) -> torch.Tensor:
        image = self.maps[name].image
        return image if len(self.layout.spec(name).shape) == 4 else image[:, :, 0, 0]

    def _prepare(self, step: Compute) -> PreparedKernel:
        """The compiled kernels, or where there are none the reference's function."""
        operator = step.operator
        sources = [self.maps[name] for name in operator.inputs]
        channels = self.maps[operator.output].rows.shape[1]
        if isinstance(self._kernels, NativeKernels):
            call = self._kernels.prepare(operator, sources, channels)
            if call is not None:
                return PreparedKernel(call=call, alternative=self._kernels.alternative(call))
        return PreparedKernel(function=self._reference.prepare(operator, sources, channels))

    def _switch(self, output: str) -> None:
        """Tell the executor from how many pixels on an operator uses its second kernel."""
        if not isinstance(self._executor, NativeExecutor) or self._prepared[output].call is None:
            return
        share, pixels = self._switch_from.get(output, 2.0), self.layout.spec(output).pixels
        for index in self._index[output]:
            self._executor.switch_from(index, round(share * pixels) if share <= 1 else NEVER)

    def _by_operator(self, figures: Iterable[tuple[Compute, float]]) -> dict[str, float]:
        """Sums by output: what is not kept may be computed in several steps."""
        sums: dict[str, float] = {}
        for step, figure in figures:
            sums[step.operator.output] = sums.get(step.operator.output, 0.0) + figure
        return sums
