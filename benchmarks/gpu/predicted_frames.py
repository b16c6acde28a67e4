# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""A model of the time of a frame on a GPU, for machines without one: a roofline with the time of launches.

A launch takes the longest of: the gap to the next one, its bytes, its products in waves of whole tiles (so that a few
active pixels take as long as a tile of each), and the start of all its programs, even of those that find no work.
Frames on an H200 took several times as long as predicted (docs/jetson.md): :class:`.devices.Assumptions`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum

import torch

from benchmarks.gpu.devices import DENSE, SPARSE, Arithmetic, Assumptions, Device
from benchmarks.gpu.launch_work import FLOAT32_BYTES, Launch, aten_work, frame_work, operator_work, plan_work
from cacheinf_ros.engine.execution.active import ActiveSet
from cacheinf_ros.engine.execution.plan import Plan
from cacheinf_ros.engine.gpu.pixel_launch import Tiles
from cacheinf_ros.engine.layout import Layout
from cacheinf_ros.graph.ir import Global

_SETS_BEFORE = 1  # one memset of all sets before the graph; another for each camera's flags
_INDEX_BYTES = 4
_FLOAT16_BYTES = 2


class Bound(Enum):
    """What bounds the time of a launch."""

    GAP = "launch gaps"
    BYTES = "bytes"
    PRODUCTS = "FLOPs"
    STARTS = "starts of programs"
    BUS = "copies"


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameTime:
    """The predicted time of a frame.

    Attributes:
        launches: number of launches on the device, not counting copies between its memory and the CPU's.
        microseconds: time by what bounds the launches.
    """

    launches: int
    microseconds: Mapping[Bound, float]

    @property
    def milliseconds(self) -> float:
        """The time of the whole frame."""
        return sum(self.microseconds.values()) / 1e3

    @property
    def bound(self) -> Bound:
        """What bounds most of the time."""
        return max(self.microseconds, key=lambda bound: self.microseconds[bound])


def launch_us(launch: Launch, device: Device, arithmetic: Arithmetic, assumed: Assumptions) -> tuple[float, Bound]:
    """Return the microseconds of a launch, and what bounds it."""
    found = {Bound.GAP: device.launch_gap_us}
    if launch.programs:
        found[Bound.BYTES] = launch.moved / (1e3 * device.memory_gb_s * assumed.of_memory)
        waves = -(-launch.programs // device.multiprocessors)
        of_all = waves * device.multiprocessors / launch.programs  # as if the last wave were full
        tensor_us = launch.products * of_all / (1e6 * device.product_tflops(arithmetic) * assumed.of_peak)
        other_us = launch.arithmetic * of_all / (1e6 * device.float32_tflops * assumed.of_peak)
        found[Bound.PRODUCTS] = tensor_us + other_us
    most = launch.most_per_multiprocessor
    started = launch.grid if most is None else min(launch.grid, most * device.multiprocessors)
    found[Bound.STARTS] = started * assumed.start_us / (device.multiprocessors * assumed.programs_at_once)
    bound = max(found, key=lambda each: found[each])
    return found[bound], bound


def sparse_frame(
    plan: Plan,
    layout: Layout,
    counts: Mapping[ActiveSet, int],
    device: Device,
    arithmetic: Arithmetic = Arithmetic.TF32X3,
    assumed: Assumptions = SPARSE,
    cameras: int = 1,
) -> FrameTime:
    """Predict the time of one frame of each camera as the Triton executor computes it.

    It lasts from the changed pixels in the CPU's memory to the outputs there.

    Args:
        counts: for each set of the plan, the number of each camera's active pixels.
        cameras: number of cameras computed in one pass.
    """
    work = plan_work(plan, layout, counts, cameras=cameras)
    before = _SETS_BEFORE + cameras
    took = _total(work, device, arithmetic, assumed)
    took[Bound.GAP] += before * device.launch_gap_us
    sets = len({id(each) for each in counts})
    took[Bound.BUS] += cameras * input_us(plan, layout, counts[plan.input], device, on_device=False)
    took[Bound.BUS] += _copies_us([sets * _INDEX_BYTES, *cameras * _outputs(layout, FLOAT32_BYTES)], device)
    return FrameTime(launches=before + len(work), microseconds=took)


def input_us(
    plan: Plan, layout: Layout, changed: int, device: Device, *, on_device: bool, assumed: Assumptions = SPARSE
) -> float:
    """Predict the microseconds until the changed pixels of a frame of the input's size are where operators read them.

    Args:
        changed: number of changed pixels.
        on_device: whether the frame is uploaded as a whole and compared there; otherwise the CPU compares it, whose
            time is not included.
    """
    image, pixels = layout.spec(layout.graph.input), plan.input.pixels
    if not on_device:
        up = [pixels, changed * _INDEX_BYTES, changed * image.channels * image.value_bytes]  # a mask, places, values
        return _copies_us(up, device)
    work = frame_work(plan, layout, changed)
    copied = 0.0 if device.shares_memory else _copies_us([pixels * image.channels], device)
    return copied + sum(launch_us(launch, device, Arithmetic.TF32X3, assumed)[0] for launch in work)


def dense_frame(layout: Layout, device: Device, assumed: Assumptions = DENSE) -> FrameTime:
    """Predict the time of the graph computed densely by a good float16 engine.

    There is one launch for each operator, with the same tiles, but more of the peak is reached. The whole picture is
    uploaded, one byte per channel.

    Args:
        layout: how maps are laid out; all maps and outputs are assumed to be float16, whatever it states.
    """
    layout = _in_float16(layout)
    work = []
    for operator in layout.operators:
        if isinstance(operator, Global):
            work.append(aten_work(operator, layout, _FLOAT16_BYTES))
        else:
            pixels = layout.spec(operator.output).pixels
            work.append(operator_work(operator, layout, pixels, Tiles()))
    took = _total(work, device, Arithmetic.FLOAT16, assumed)
    image = layout.spec(layout.graph.input)
    took[Bound.BUS] += _copies_us([image.pixels * image.channels, *_outputs(layout, _FLOAT16_BYTES)], device)
    return FrameTime(launches=len(work), microseconds=took)


def _in_float16(layout: Layout) -> Layout:
    tensors = {name: replace(spec, floats=torch.float16) for name, spec in layout.graph.tensors.items()}
    return replace(layout, graph=replace(layout.graph, tensors=tensors))


def _total(work: Sequence[Launch], device: Device, arithmetic: Arithmetic, assumed: Assumptions) -> dict[Bound, float]:
    took: dict[Bound, float] = defaultdict(float)
    for launch in work:
        microseconds, bound = launch_us(launch, device, arithmetic, assumed)
        took[bound] += microseconds
    return took


def _copies_us(sizes: Sequence[int], device: Device) -> float:
    return sum(device.copy_us + size / (1e3 * device.bus_gb_s) for size in sizes)


def _outputs(layout: Layout, value_bytes: int) -> list[int]:
    found = []
    for _, name in layout.graph.outputs:
        size = value_bytes
        for length in layout.graph.tensors[name].shape:
            size *= length
        found.append(size)
    return found
