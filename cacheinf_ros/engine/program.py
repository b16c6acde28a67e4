# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""A graph compiled for one engine: maps allocated, kernels prepared, steps planned."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import torch

from cacheinf_ros.engine.backends import Backend
from cacheinf_ros.engine.buffers import MapBuffer
from cacheinf_ros.engine.caching import EVERYTHING, Caching
from cacheinf_ros.engine.delta_threshold import NOTHING_CHANGED, DeltaThreshold
from cacheinf_ros.engine.execution.active import ActiveSet
from cacheinf_ros.engine.execution.border import Border
from cacheinf_ros.engine.execution.executable import Executable
from cacheinf_ros.engine.execution.graph_planner import Planner
from cacheinf_ros.engine.execution.plan import Plan
from cacheinf_ros.engine.execution.segments import Segmenting
from cacheinf_ros.engine.execution.steps import Compute
from cacheinf_ros.engine.execution.strips import Segment
from cacheinf_ros.engine.execution.tensors import Tensors
from cacheinf_ros.engine.feature_maps import FeatureMaps
from cacheinf_ros.engine.kernels import PreparedKernel
from cacheinf_ros.engine.layout import lay_out
from cacheinf_ros.engine.lifetimes import lifetimes, with_poison
from cacheinf_ros.engine.operator_profile import Profile
from cacheinf_ros.engine.partition.partition import PartitionSpace, Side
from cacheinf_ros.engine.partition.replicas import TensorReplicas
from cacheinf_ros.graph import Graph
from cacheinf_ros.graph.ir import Global

if TYPE_CHECKING:  # the module needs Triton
    from cacheinf_ros.engine.gpu.camera_batch import CameraSeat


class Program:
    """The compiled graph; :meth:`execute` computes what depends on the changed pixels of the input.

    Attributes:
        layout: the layout of the graph.
        caching: which maps are kept between frames.
        maps: all feature maps, kept or not.
        profile: what each operator did in the last frame, and how long it took.
        replicas: what is known of the other machine's copy of each tensor; None: there is no other machine.
    """

    def __init__(
        self,
        graph: Graph,
        backend: Backend,
        caching: Caching = EVERYTHING,
        *,
        debug_memory: bool = False,
        side: Side | None = None,
        seat: CameraSeat | None = None,
    ) -> None:
        """Compile the graph.

        Args:
            debug_memory: whether to overwrite maps with NaN where they should not be read, which is slow.
            side: which of two machines this is; None: there is no other. Both must keep the same maps.
            seat: the seat among cameras that a GPU computes together; None: this program is computed by itself.
        """
        self.layout = lay_out(graph)
        self.caching = caching
        self._debug_memory = debug_memory
        self._backend = seat.backend() if seat else backend
        self._planner = Planner(self.layout)
        self.replicas = TensorReplicas(PartitionSpace(self.layout, caching.dropped), side) if side else None
        self._segments: list[Segment] = []
        self.maps = seat.maps(self._allocated) if seat else self._allocated()
        values = {name: self._shaped(name) for name in self.maps}
        self._tensors = Tensors(maps=self.maps, values=values, specs=graph.tensors)
        self._kernels: dict[str, PreparedKernel] = {}  # by the operator's output: weights are packed once
        self.profile = Profile(self.layout)
        self.set_thresholds({})

    @property
    def input(self) -> MapBuffer:
        """The map that the model's input is written to."""
        return self.maps[self.layout.graph.input]

    @property
    def changed_input(self) -> ActiveSet:
        """The pixels of the input that changed, to be filled before :meth:`execute`."""
        return self.plan.input

    @property
    def kept(self) -> list[str]:
        """The outputs of the graph's operators that are computed pixel by pixel and kept between frames."""
        layout, dropped = self.layout, self.caching.dropped
        local = (o.output for o in layout.operators if not isinstance(o, Global))
        return [n for n in local if n in layout.graph.tensors and layout.root(n) not in dropped]

    @property
    def outputs(self) -> dict[str, torch.Tensor]:
        """The outputs of the last frame by name, without those that another machine computed and nobody here read."""
        values = self._tensors.values
        return {name: values[tensor] for name, tensor in self.layout.graph.outputs if tensor in values}

    @property
    def active_share(self) -> float:
        """The FLOPs of the convolutions' active pixels in the last frame, as a share of those of all pixels."""
        if not self._dense_flops:
            return 1.0
        counts = [active.count for active in self._convolved]
        return int(self._flops_per_pixel @ counts) / self._dense_flops

    def set_thresholds(self, thresholds: Mapping[str, DeltaThreshold]) -> None:
        """Hold small changes of these tensors back from now on; the cache stays as it is.

        Of other tensors, only pixels that round to the same levels as before are held back, which changes nothing.
        """
        same = {name: NOTHING_CHANGED for name in self.kept if self.layout.spec(name).levels}
        plan = self._planner.plan(self.caching, {**same, **thresholds}, self.replicas)
        if self._debug_memory:
            plan = replace(plan, steps=with_poison(plan.steps, self.layout, self.caching, self._segments))
        steps = plan.steps
        for step in steps:
            if isinstance(step, Compute) and step.operator.output not in self._kernels:
                self._kernels[step.operator.output] = self._prepared(step)
        executor = self._backend.executor(
            Executable(
                steps=steps,
                kernels=self._kernels,
                tensors=self._tensors,
                replicas=self.replicas,
                segments=self._segments,
            )
        )
        self.plan: Plan = plan  # only now: where no executor can be made, the former ones go on
        self._executor = executor
        self.profile.watch(steps, self._kernels, self._executor)
        convolutions = [step for step in steps if isinstance(step, Compute) and step.flops_per_pixel]
        self._convolved = [step.active for step in convolutions]
        self._flops_per_pixel = np.array([step.flops_per_pixel for step in convolutions], np.int64)
        # what is not kept may be computed in several steps, and counts once
        dense = {step.operator.output: step.flops_per_pixel * step.active.pixels for step in convolutions}
        self._dense_flops = sum(dense.values())

    def execute(self, *, outside: Border = Border.NONE, refresh: bool = False) -> dict[str, torch.Tensor]:
        """Compute everything that depends on the changed input; outputs by name, valid until the next frame.

        Args:
            outside: the sides beside which padding counts as changed, as the picture has moved with its border.
            refresh: whether every change is passed on, however small.
        """
        self._executor.execute(outside=outside, refresh=refresh)
        return self.outputs

    def awake(self) -> AbstractContextManager[None]:
        """Return a context for all that a frame needs: see :meth:`Backend.awake`."""
        return self._backend.awake()

    def shift(self, dx: int, dy: int) -> None:
        """Move every cached map by whole pixels of its own; what enters counts as changed, however little.

        Args:
            dx, dy: right and down, in pixels of the input: multiples of :func:`shift_unit`.
        """
        height, width = self.input.size
        for replica in self.replicas or ():
            replica.move(dx * replica.size[1] // width, dy * replica.size[0] // height)
        moved = [buffer for buffer in self.maps.kept if len(buffer.pixels) > 1]
        self._backend.shift([(b, dx * b.size[1] // width, dy * b.size[0] // height) for b in moved])

    def _allocated(self, cameras: int = 1) -> FeatureMaps:
        """Allocate all maps, for this many cameras; also find out what is computed strip by strip."""
        layout, caching, backend = self.layout, self.caching, self._backend
        if not caching.dropped:
            return FeatureMaps(layout, caching, [], backend.device, cameras=cameras)
        # where changes may be held back, operators share fewest sets and most is computed in several steps
        steps = self._planner.plan(caching, dict.fromkeys(self.kept, NOTHING_CHANGED), self.replicas).steps
        if caching.dense and backend.strip_bytes:
            self._segments = Segmenting(steps, layout, caching, backend.strip_bytes).segments()
        records = lifetimes(steps, layout, caching, segments=self._segments)
        return FeatureMaps(layout, caching, records, backend.device, self._segments, cameras)

    def _shaped(self, name: str) -> torch.Tensor:
        image = self.maps[name].image
        return image if len(self.layout.spec(name).shape) == 4 else image[:, :, 0, 0]

    def _prepared(self, step: Compute) -> PreparedKernel:
        operator = step.operator
        sources = [self.maps[name] for name in operator.inputs]
        target = self.maps[operator.output]
        out = target.levels or target.pixels.dtype
        return self._backend.prepare(operator, sources, target.pixels.shape[1], out)
