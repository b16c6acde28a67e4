# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Executes steps on a GPU without waiting for it between them: active sets and their sizes stay in its memory.

Whatever the sets hold, the same launches are made, large enough for all pixels; programs without work leave at once.
A frame is therefore one CUDA graph, which is captured after a few frames and replayed from then on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import torch

from cacheinf_ros.engine.buffers import MapBuffer
from cacheinf_ros.engine.delta_threshold import NOTHING_CHANGED
from cacheinf_ros.engine.execution.active import ActiveSet
from cacheinf_ros.engine.execution.border import Border
from cacheinf_ros.engine.execution.executable import Executable
from cacheinf_ros.engine.execution.propagation import TapTable
from cacheinf_ros.engine.execution.reference_executor import prepared_poison, reader
from cacheinf_ros.engine.execution.steps import Call, Compute, Difference, FillIfAny, Poison, Propagate, Step, Union
from cacheinf_ros.engine.gpu.cuda_graph import captured
from cacheinf_ros.engine.gpu.device_set import DeviceSet, DeviceSets
from cacheinf_ros.engine.gpu.kernel_launches import compile_together, noted_launches
from cacheinf_ros.engine.gpu.limits import Limits
from cacheinf_ros.engine.gpu.pixel_launch import Tiles
from cacheinf_ros.engine.gpu.set_launches import REFRESH, TAKES_PART, Action, SetLaunches
from cacheinf_ros.engine.gpu.triton_kernels import copying
from cacheinf_ros.engine.kernels.prepared import PixelFunction, PreparedKernel
from cacheinf_ros.engine.kernels.reference_kernels import on_device
from cacheinf_ros.engine.tf32 import tf32
from cacheinf_ros.graph.ir import resolve

_EAGER_FRAMES = 3
"""The frames before one is captured; kernels are loaded in the first, and steps are timed one by one in all."""
_Computing = Callable[..., None]


class TritonExecutor:
    """Runs the steps of a plan that no other machine shares, for one camera or for several at once.

    Attributes:
        microseconds: float32 [steps], the time of each step in the last run that was no replay; 0 without a GPU.
    """

    def __init__(
        self,
        executable: Executable,
        device: torch.device,
        tiles: Tiles,
        maps: Mapping[str, MapBuffer] | None = None,
        cameras: int = 1,
    ) -> None:
        """Prepare the launches.

        Args:
            executable: the only camera's, or that of any one of several, each of which must then be given to
                :meth:`seat`.
            device: where the maps are.
            tiles: the largest tiles of a program.
            maps: the maps of all cameras, one camera's below another's, as the executable's kernels read and write
                them; None: there is one camera.
            cameras: the number of cameras.
        """
        self._device = device
        self._executable = executable
        self._maps = executable.tensors.maps if maps is None else maps
        self._seated: dict[int, Executable] = {}
        self._limits: dict[int, Limits] = {}  # by step
        steps = executable.steps
        read = [source for step in steps for source in _read(step)]
        self._sets = DeviceSets(_sets(steps), device, cameras)
        self._last = {id(target): i for i, step in enumerate(steps) for target in _filled(step)}
        self._inputs = list({id(s): s for s in read if id(s) not in self._last}.values())
        self._listed = {id(step.active) for step in steps if isinstance(step, Compute)}
        self._launches = SetLaunches(device, tiles, self._sets.counts, self._sets.flags)
        widest = max((self._bytes(step) for step in steps if isinstance(step, Compute) and step.delta), default=0)
        self._scratch = torch.empty(widest, dtype=torch.uint8, device=device)
        self._entering = [self._list(each) for each in self._inputs]
        self._actions = [self._prepared(i, step) for i, step in enumerate(steps)]
        self._graph: torch.cuda.CUDAGraph | None = None
        self._eager_frames = 0
        self._captures = self._must_compile = device.type == "cuda"
        self.microseconds = np.zeros(len(steps), np.float32)
        if cameras == 1:
            self.seat(0, executable)

    @property
    def seated(self) -> Mapping[int, Executable]:
        """The cameras that take part in frames, and what each of them executes."""
        return self._seated

    def seat(self, camera: int, executable: Executable | None) -> None:
        """Let a camera take part from now on, or no longer.

        Args:
            camera: its number.
            executable: its executable, whose steps may differ only in sets, thresholds and weights; None: it leaves.
        """
        before = self._seated.pop(camera, None)
        if executable is not None:
            self._seated[camera] = executable
            self._sets.seat(camera, _sets(executable.steps))
            for index, limits in self._limits.items():
                step = executable.steps[index]
                assert isinstance(step, Compute) and step.delta is not None
                limits.set(camera, step.delta)
        if before is None or executable is None or before.tensors is not executable.tensors:  # calls read them
            self._graph, self._eager_frames = None, 0
            self._captures = self._device.type == "cuda"

    def execute(self, *, outside: Border, refresh: bool) -> None:
        """Implement :meth:`Executor.execute` for the only camera."""
        self.execute_together({0: (outside, refresh)})

    def execute_together(self, frames: Mapping[int, tuple[Border, bool]]) -> None:
        """Execute all steps for several cameras in one pass; the maps of the other cameras stay as they are.

        Args:
            frames: by camera, the sides beside which padding counts as changed, and whether everything is passed on.
        """
        self._sets.clear()
        for camera, (outside, refresh) in frames.items():
            self._sets.flags[camera].fill_(int(outside) | TAKES_PART | (REFRESH if refresh else 0))
            for each in self._inputs:
                self._sets.upload(each, camera)
        if self._graph is None:
            with tf32(self._device, allowed=False):
                self._capture_or_run()
        if self._graph is not None:
            self._graph.replay()
        self._sets.tell_hosts(frames)

    def switch_from(self, index: int, pixels: int) -> None:
        """Do nothing, as no operator has a second kernel."""

    def time(self, index: int, camera: int = 0) -> float:
        """Return the microseconds of one step on the active pixels of a camera's set on the host; only on a GPU."""
        step = self._executable.steps[index]
        assert isinstance(step, Compute)
        self._sets.clear()
        self._sets.flags[camera].fill_(REFRESH | TAKES_PART)
        self._sets.upload(step.active, camera)
        self._list(step.active)()
        with tf32(self._device, allowed=False):
            self._compile()
            self._actions[index]()  # not counted: kernels are loaded by their first launch
            return self._timed(self._actions[index])

    def _capture_or_run(self) -> None:
        """Launch the kernels one by one in the first frames, then capture a frame where that is possible."""
        self._compile()
        if self._captures and self._eager_frames >= _EAGER_FRAMES:
            self._capture()
        if self._graph is None:
            self._run()
            self._eager_frames += 1

    def _compile(self) -> None:
        """Compile all kernels together the first time, in several threads; elsewhere than on a GPU do nothing."""
        if not self._must_compile:
            return
        self._must_compile = False
        with noted_launches() as launches:
            for action in self._entering:
                action()
            for step, action in zip(self._executable.steps, self._actions, strict=True):
                if not isinstance(step, (Call, Poison)):  # these would do more than launch
                    action()
        compile_together(launches, self._device)

    def _run(self) -> None:
        if self._device.type != "cuda":
            self._launch()
            return
        for action in self._entering:
            action()
        events = [torch.cuda.Event(enable_timing=True) for _ in range(len(self._actions) + 1)]
        for event, action in zip(events, self._actions, strict=False):
            event.record()
            action()
        events[-1].record()
        events[-1].synchronize()
        self.microseconds[:] = [1e3 * first.elapsed_time(second) for first, second in pairwise(events)]

    def _capture(self) -> None:
        """Capture a frame; where that is not possible, leave it at single launches from now on."""
        self._captures = False
        self._graph = captured(self._launch, "a frame")

    def _launch(self) -> None:
        for action in [*self._entering, *self._actions]:
            action()

    def _timed(self, action: Action) -> float:
        first, second = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        first.record()
        action()
        second.record()
        second.synchronize()
        return float(1e3 * first.elapsed_time(second))

    def _list(self, host: ActiveSet) -> Action:
        """Return the launch that lists the pixels of a set whose mask is on the device already."""
        each = self._sets[host]
        return self._launches.combination(each, each, each, difference=False, listed=True, counted=True)

    def _prepared(self, index: int, step: Step) -> Action:
        launches, sets = self._launches, self._sets
        match step:
            case Propagate():
                table = TapTable.of(step.footprint)
                return launches.propagation(
                    table, sets[step.source], sets[step.target], step.source.size[1],
                    inwards=step.inwards, listed=self._is_listed(step.target),
                )  # fmt: skip
            case Union():
                return self._combination(index, step.first, step.second, step.target, difference=False)
            case Difference():
                return self._combination(index, step.source, step.without, step.target, difference=True)
            case FillIfAny():
                listed = self._is_listed(step.target)
                return launches.filling([sets[step.source]], sets[step.target], Border.ALL, listed=listed)
            case Call():
                return self._call(step)
            case Poison():
                poison = prepared_poison(step, replace(self._executable.tensors, maps=self._maps))
                return lambda: poison(Border.NONE, False)
        assert isinstance(step, Compute), "what machines share is executed by the ReferenceExecutor"
        return self._compute(index, step, self._executable.kernels[step.operator.output])

    def _combination(
        self, index: int, first: ActiveSet, second: ActiveSet, target: ActiveSet, *, difference: bool
    ) -> Action:
        """Prepare a union or difference; a set that several steps fill is counted and listed only in the last one."""
        sets, counted = self._sets, self._last[id(target)] == index
        return self._launches.combination(
            sets[first], sets[second], sets[target], difference=difference,
            listed=self._is_listed(target), counted=counted,
        )  # fmt: skip

    def _compute(self, index: int, step: Compute, kernel: PreparedKernel) -> Action:
        active, out = self._sets[step.active], self._maps[step.operator.output].pixels
        compute = kernel.launch or self._by_torch(kernel.function, *out.shape)
        if step.delta is None:
            return lambda: compute(active.listed, active.count, out, most=active.pixels)
        changed = self._sets[step.changed]
        limits = self._limits[index] = Limits(step.delta.criterion, out.shape[1], active.cameras, self._device)
        commit = self._launches.commitment(
            limits, out, step.active.size[1], active, changed, listed=self._is_listed(step.changed)
        )
        computed = self._scratch[: self._bytes(step)].view(out.dtype).view(active.pixels, -1)

        def run() -> None:
            compute(active.listed, active.count, computed, most=active.pixels, compact=True)
            commit(computed)

        return run

    def _by_torch(self, function: PixelFunction | None, pixels: int, channels: int) -> _Computing:
        """Return a launch for an operator without a kernel: torch computes all pixels, and listed ones are copied."""
        assert function is not None
        everything = torch.arange(pixels, device=self._device)
        index = torch.arange(channels, dtype=torch.int32, device=self._device)

        def compute(
            listed: torch.Tensor, count: torch.Tensor, out: torch.Tensor, *, most: int, compact: bool = False
        ) -> None:
            copying(function(everything).contiguous(), index)(listed, count, out, most=most, compact=compact)

        return compute

    def _call(self, step: Call) -> Action:
        """Call a global operator in every frame, for each camera separately.

        Only the device knows whether the call is due. Where nothing changed it returns the same as before, and nothing
        is written for a camera that takes no part.
        """
        operator, out = step.operator, self._maps.get(step.operator.output)
        arguments, keywords = (on_device(value, self._device) for value in (operator.arguments, operator.keywords))
        inputs, changed = [self._sets[each] for each in step.inputs], self._sets[step.changed]
        seated = self._seated

        def called(executable: Executable) -> Any:
            read = reader(executable.tensors)
            return operator.call(*resolve(arguments, read), **resolve(keywords, read))

        if out is None:
            announce = self._launches.filling(inputs, changed, REFRESH, listed=False)
        else:
            whole = _whole(changed, self._device)
            limits = Limits(NOTHING_CHANGED.criterion, out.pixels.shape[1], whole.cameras, self._device)
            for camera in range(whole.cameras):
                limits.set(camera, NOTHING_CHANGED)
            commit = self._launches.commitment(
                limits, out.pixels, out.size[1], whole, changed, listed=self._is_listed(step.changed)
            )
            computed = torch.zeros_like(out.pixels, memory_format=torch.contiguous_format).view(whole.cameras, -1)
            channels = self._executable.tensors.specs[operator.output].shape[1]

        def run() -> None:
            for camera, executable in seated.items():
                result = called(executable)
                if out is None:
                    executable.tensors.values[operator.output] = result
                else:
                    computed[camera] = result.reshape(channels, -1).t().reshape(-1)
            if out is None:
                announce()
            else:
                commit(computed.view(out.pixels.shape))

        return run

    def _bytes(self, step: Compute) -> int:
        """Return the bytes of the whole map that a step computes."""
        pixels = self._maps[step.operator.output].pixels
        return pixels.numel() * pixels.element_size()

    def _is_listed(self, target: ActiveSet) -> bool:
        return id(target) in self._listed


def _whole(like: DeviceSet, device: torch.device) -> DeviceSet:
    """Return a set of the same size as another one, in which all pixels are active."""
    return DeviceSet(
        mask=torch.ones(like.pixels, dtype=torch.uint8, device=device),
        listed=torch.arange(like.pixels, dtype=torch.int32, device=device),
        count=torch.tensor([like.pixels], dtype=torch.int32, device=device),
        first_count=-1,
        cameras=like.cameras,
    )


def _sets(steps: Sequence[Step]) -> list[ActiveSet]:
    """Return all sets of a plan, in an order that is the same for plans with the same steps."""
    return [each for step in steps for each in (*_read(step), *_filled(step))]


def _filled(step: Step) -> Sequence[ActiveSet]:
    """Return the sets that a step fills."""
    if isinstance(step, (Propagate, Union, Difference, FillIfAny)):
        return (step.target,)
    if isinstance(step, Call) or (isinstance(step, Compute) and step.delta):
        return (step.changed,)
    return ()


def _read(step: Step) -> Sequence[ActiveSet]:
    """Return the sets that a step reads."""
    match step:
        case Propagate() | FillIfAny():
            return (step.source,)
        case Union():
            return (step.first, step.second)
        case Difference():
            return (step.source, step.without)
        case Compute():
            return (step.active,)
        case Call():
            return step.inputs
    return ()
