# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Executes steps on a GPU without waiting for it in between: active sets, and their sizes, stay there.

Whatever the sets hold, the same launches are made, as large as all pixels would need; programs without work leave at
once. A frame is therefore one CUDA graph, captured after a few frames and replayed from then on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np
import torch

from cacheinf_ros.engine.delta_threshold import NOTHING_CHANGED
from cacheinf_ros.engine.execution.active import ActiveSet
from cacheinf_ros.engine.execution.border import Border
from cacheinf_ros.engine.execution.executable import Executable
from cacheinf_ros.engine.execution.propagation import TapTable
from cacheinf_ros.engine.execution.reference_executor import prepared_poison, reader
from cacheinf_ros.engine.execution.steps import Call, Compute, Difference, FillIfAny, Poison, Propagate, Step, Union
from cacheinf_ros.engine.gpu.cuda_graph import captured
from cacheinf_ros.engine.gpu.device_set import DeviceSet, DeviceSets
from cacheinf_ros.engine.gpu.pixel_launch import Tiles
from cacheinf_ros.engine.gpu.set_launches import REFRESH, Action, SetLaunches
from cacheinf_ros.engine.gpu.triton_kernels import copying
from cacheinf_ros.engine.kernels.prepared import PixelFunction, PreparedKernel
from cacheinf_ros.engine.kernels.reference_kernels import on_device
from cacheinf_ros.graph.ir import resolve

_EAGER_FRAMES = 3
"""Frames before one is captured: in the first kernels are compiled, and steps can be timed one by one."""
_Computing = Callable[..., None]


class TritonExecutor:
    """Runs the steps of a plan that no other machine shares.

    Attributes:
        microseconds: float32 [steps], of each step in the last run that was no replay; 0 but on a GPU.
    """

    def __init__(self, executable: Executable, device: torch.device, tiles: Tiles) -> None:
        """Prepare the launches."""
        self._device = device
        self._executable = executable
        steps = executable.steps
        filled = [target for step in steps for target in _filled(step)]
        read = [source for step in steps for source in _read(step)]
        self._sets = DeviceSets([*read, *filled], device)
        self._last = {id(target): i for i, step in enumerate(steps) for target in _filled(step)}
        self._inputs = list({id(s): s for s in read if id(s) not in self._last}.values())
        self._listed = {id(step.active) for step in steps if isinstance(step, Compute)}
        self._flags = torch.zeros(1, dtype=torch.int32, device=device)
        self._launches = SetLaunches(device, tiles, self._sets.counts, self._flags)
        widest = max((self._bytes(step) for step in steps if isinstance(step, Compute) and step.delta), default=0)
        self._scratch = torch.empty(widest, dtype=torch.uint8, device=device)
        self._entering = [self._list(each) for each in self._inputs]
        self._actions = [self._prepared(i, step) for i, step in enumerate(steps)]
        self._graph: torch.cuda.CUDAGraph | None = None
        self._eager_frames = 0
        self._captures = device.type == "cuda"
        self.microseconds = np.zeros(len(steps), np.float32)

    def execute(self, *, outside: Border, refresh: bool) -> None:
        """As :meth:`Executor.execute`."""
        self._sets.clear()
        self._flags.fill_(int(outside) | (REFRESH if refresh else 0))
        for each in self._inputs:
            self._upload(each)
        if self._graph is None and self._captures and self._eager_frames >= _EAGER_FRAMES:
            self._capture()
        if self._graph is not None:
            self._graph.replay()
        else:
            self._run()
            self._eager_frames += 1
        self._sets.tell_hosts()

    def switch_from(self, index: int, pixels: int) -> None:
        """Nothing: no operator has a second kernel."""

    def time(self, index: int) -> float:
        """Microseconds of one step on the active pixels that its set holds on the host; on a GPU only."""
        step = self._executable.steps[index]
        assert isinstance(step, Compute)
        self._sets.clear()
        self._flags.fill_(REFRESH)
        self._upload(step.active)
        self._list(step.active)()
        self._actions[index]()  # compiled, if it was not
        return self._timed(self._actions[index])

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
        """Capture a frame; where that cannot be, go on launch by launch."""
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

    def _upload(self, host: ActiveSet) -> None:
        mask = torch.from_numpy(host.mask).view(-1) if host.device_mask is None else host.device_mask
        self._sets[host].mask.copy_(mask, non_blocking=True)

    def _list(self, host: ActiveSet) -> Action:
        """List the pixels of a set whose mask is there."""
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
                poison = prepared_poison(step, self._executable.tensors)
                return lambda: poison(Border.NONE, False)
        assert isinstance(step, Compute), "what machines share is executed by the ReferenceExecutor"
        return self._compute(step, self._executable.kernels[step.operator.output])

    def _combination(
        self, index: int, first: ActiveSet, second: ActiveSet, target: ActiveSet, *, difference: bool
    ) -> Action:
        """A union of many is filled in several steps, of which the last one counts."""
        sets, counted = self._sets, self._last[id(target)] == index
        return self._launches.combination(
            sets[first], sets[second], sets[target], difference=difference,
            listed=self._is_listed(target), counted=counted,
        )  # fmt: skip

    def _compute(self, step: Compute, kernel: PreparedKernel) -> Action:
        buffer = self._executable.tensors.maps[step.operator.output]
        active, out = self._sets[step.active], buffer.pixels
        compute = kernel.launch or self._by_torch(kernel.function, *out.shape)
        if step.delta is None:
            return lambda: compute(active.listed, active.count, out, most=active.pixels)
        changed = self._sets[step.changed]
        commit = self._launches.commitment(
            step.delta, out, buffer.size, active, changed, listed=self._is_listed(step.changed)
        )
        computed = self._scratch[: self._bytes(step)].view(out.dtype).view(active.pixels, -1)

        def run() -> None:
            compute(active.listed, active.count, computed, most=active.pixels, compact=True)
            commit(computed)

        return run

    def _by_torch(self, function: PixelFunction | None, pixels: int, channels: int) -> _Computing:
        """What no kernel computes: all pixels by torch, of which the listed ones are taken."""
        assert function is not None
        everything = torch.arange(pixels, device=self._device)
        index = torch.arange(channels, dtype=torch.int32, device=self._device)

        def compute(
            listed: torch.Tensor, count: torch.Tensor, out: torch.Tensor, *, most: int, compact: bool = False
        ) -> None:
            copying(function(everything).contiguous(), index)(listed, count, out, most=most, compact=compact)

        return compute

    def _call(self, step: Call) -> Action:
        """Call a global operator in every frame: whether it is due is known only on the device. What it returns is the
        same as before where nothing changed.
        """
        operator, tensors = step.operator, self._executable.tensors
        arguments, keywords = (on_device(value, self._device) for value in (operator.arguments, operator.keywords))
        values, out, read = tensors.values, tensors.maps.get(operator.output), reader(tensors)
        inputs, changed = [self._sets[each] for each in step.inputs], self._sets[step.changed]
        if out is None:
            announce = self._launches.filling(inputs, changed, REFRESH, listed=False)
        else:
            whole = _whole(changed, self._device)
            commit = self._launches.commitment(
                NOTHING_CHANGED, out.pixels, out.size, whole, changed, listed=self._is_listed(step.changed)
            )

        def run() -> None:
            result = operator.call(*resolve(arguments, read), **resolve(keywords, read))
            if out is None:
                values[operator.output] = result
                announce()
            else:
                channels = tensors.specs[operator.output].shape[1]
                computed = result.reshape(1, channels, *out.size)[0].flatten(1).t()
                commit(computed.to(out.pixels.dtype).contiguous())

        return run

    def _bytes(self, step: Compute) -> int:
        """Bytes of all pixels of what a step computes."""
        pixels = self._executable.tensors.maps[step.operator.output].pixels
        return pixels.numel() * pixels.element_size()

    def _is_listed(self, target: ActiveSet) -> bool:
        return id(target) in self._listed


def _whole(like: DeviceSet, device: torch.device) -> DeviceSet:
    """A set with all pixels, as many as another one may have."""
    return DeviceSet(
        mask=torch.ones(like.pixels, dtype=torch.uint8, device=device),
        listed=torch.arange(like.pixels, dtype=torch.int32, device=device),
        count=torch.tensor([like.pixels], dtype=torch.int32, device=device),
        number=-1,
    )


def _filled(step: Step) -> Sequence[ActiveSet]:
    """The sets that a step fills."""
    if isinstance(step, (Propagate, Union, Difference, FillIfAny)):
        return (step.target,)
    if isinstance(step, Call) or (isinstance(step, Compute) and step.delta):
        return (step.changed,)
    return ()


def _read(step: Step) -> Sequence[ActiveSet]:
    """The sets that a step reads."""
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
