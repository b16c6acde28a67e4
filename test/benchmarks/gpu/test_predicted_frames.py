# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The model of a frame's time: a convolution worked out by hand, and what must hold for every frame."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from lowered import graph_of
from networks.random_models import random_model, seeds
from networks.shared_models import mixed_model
from programs import change
from torch import nn
from triton_devices import DEVICE, DEVICE_NAME, TRITON

from benchmarks.gpu.devices import DEVICES, Arithmetic, Assumptions, Device
from benchmarks.gpu.launch_work import Launch, launches, operator_work, plan_work, read_pixels
from benchmarks.gpu.predicted_frames import Bound, FrameTime, dense_frame, input_us, launch_us, sparse_frame
from cacheinf_ros.engine.delta_threshold import Criterion, DeltaThreshold
from cacheinf_ros.engine.execution.active import ActiveSet
from cacheinf_ros.engine.execution.graph_planner import Planner
from cacheinf_ros.engine.execution.plan import Plan
from cacheinf_ros.engine.execution.propagation import TapTable, propagate
from cacheinf_ros.engine.execution.steps import Call
from cacheinf_ros.engine.gpu import set_kernels
from cacheinf_ros.engine.gpu.pixel_launch import PixelLaunch, Tiles
from cacheinf_ros.engine.layout import lay_out
from cacheinf_ros.engine.program import Program
from cacheinf_ros.engine.rematerialisation.regions import RegionModel
from cacheinf_ros.graph import Graph
from cacheinf_ros.graph.window import Window

MIXED = mixed_model()
LAYOUT = lay_out(MIXED.graph)
PLAN = Planner(LAYOUT).plan()
CONVOLUTIONS = lay_out(graph_of(nn.Sequential(nn.Conv2d(3, 16, 1), nn.Conv2d(16, 32, 3, padding=1)), (20, 20)))
HALF = Assumptions(of_memory=0.5, of_peak=0.5, programs_at_once=8, start_us=1.0)
WINDOWS = st.builds(
    lambda kernel, stride, dilation: Window(
        in_size=(64, 80), out_size=(48 // stride, 64 // stride), kernel=(kernel, kernel), stride=(stride, stride),
        dilation=(dilation, dilation),
    ),
    st.integers(1, 5), st.integers(1, 3), st.integers(1, 2),
)  # fmt: skip


def device(gap_us: float = 1.0, memory_gb_s: float = 1.0) -> Device:
    return Device(
        name="made up", multiprocessors=2, memory_gb_s=memory_gb_s, float16_tflops=1.0, tf32_tflops=0.3,
        float32_tflops=0.1, bus_gb_s=1.0, launch_gap_us=gap_us, copy_us=0.0,
    )  # fmt: skip


def convolution(active: int) -> Launch:
    return operator_work(CONVOLUTIONS.operators[1], CONVOLUTIONS, active, Tiles())


def counted(plan: Plan, share: float) -> dict[ActiveSet, int]:
    return {each: int(count[0]) for each, count in RegionModel([share]).counts(plan).items()}


def predicted(share: float, name: str = "orin-agx") -> FrameTime:
    return sparse_frame(PLAN, LAYOUT, counted(PLAN, share), DEVICES[name])


def test_a_convolution_by_hand() -> None:
    """The work of a convolution agrees with numbers worked out by hand.

    100 pixels of 20 x 20 are two tiles of 64 pixels x 32 columns, 9 * 16 deep, of the 7 that all pixels would be.

    They read 12 x 12 pixels of 16 channels and 32 * 16 * 9 weights, and write 100 pixels of 32 channels; values and
    list entries have 4 bytes each.
    """
    work = convolution(100)
    products = 2 * 2 * 64 * 32 * 144
    moved = 4 * (144 * 16 + 4608 + 100 * 32) + 4 * 100
    assert work == Launch(what="Conv", moved=moved, products=products, programs=2, grid=7, most_per_multiprocessor=4)
    slow_memory = moved / 500  # 1 GB/s is 1000 bytes per microsecond, of which half is reached
    assert launch_us(work, device(), Arithmetic.TF32X3, HALF) == (pytest.approx(slow_memory), Bound.BYTES)
    # three products of 0.3 TFLOPS each: 100,000 per microsecond, of which half is reached
    found = launch_us(work, device(memory_gb_s=10.0), Arithmetic.TF32X3, HALF)
    assert found == (pytest.approx(products / 50_000), Bound.PRODUCTS)
    found = launch_us(work, device(memory_gb_s=100.0), Arithmetic.BFLOAT16, HALF)
    assert found == (pytest.approx(products / 500_000), Bound.PRODUCTS)
    assert launch_us(work, device(gap_us=99.0), Arithmetic.TF32X3, HALF) == (99.0, Bound.GAP)


def test_a_pixel_takes_as_long_as_a_tile_for_each_multiprocessor() -> None:
    fast = device(memory_gb_s=1000.0)
    one, two, three = (launch_us(convolution(n), fast, Arithmetic.TF32X3, HALF)[0] for n in (1, 128, 129))
    assert one == two == three / 2


def test_starts_of_programs_count_where_nothing_is_active() -> None:
    work = convolution(0)
    assert (work.moved, work.products, work.programs) == (0, 0, 0)
    slow = Assumptions(of_memory=0.5, of_peak=0.5, programs_at_once=1, start_us=10.0)
    assert launch_us(work, device(), Arithmetic.TF32X3, slow) == (35.0, Bound.STARTS)


def test_programs_that_take_blocks_in_turn_are_started_once() -> None:
    """Of 100 programs, 4 are started on each of 2 multiprocessors, which hold one at a time."""
    slow = Assumptions(of_memory=0.5, of_peak=0.5, programs_at_once=1, start_us=10.0)
    for most, expected in ((None, 500.0), (4, 40.0), (99, 500.0)):
        work = Launch(what="Conv", moved=0, programs=0, grid=100, most_per_multiprocessor=most)
        assert launch_us(work, device(), Arithmetic.TF32X3, slow) == (expected, Bound.STARTS)


@given(window=WINDOWS, side=st.integers(1, 8))
def test_read_pixels_of_a_square(window: Window, side: int) -> None:
    target, read = ActiveSet(window.out_size), ActiveSet(window.in_size)
    target.mask[:side, :side] = 1
    target.use_mask()
    propagate(TapTable.of_window(window).inverse(window.in_size), target, read)
    assert read.count <= read_pixels(window, target.count) <= target.count * math.prod(window.kernel)
    if window.dilation == (1, 1) and window.kernel >= window.stride:
        assert read_pixels(window, target.count) == read.count


@given(counts=st.tuples(st.integers(0, 400), st.integers(0, 400)), name=st.sampled_from(sorted(DEVICES)))
def test_more_pixels_of_an_operator_take_no_less(counts: tuple[int, int], name: str) -> None:
    few, many = (launch_us(convolution(n), DEVICES[name], Arithmetic.TF32X3, HALF)[0] for n in sorted(counts))
    assert few <= many


@given(shares=st.tuples(st.floats(0.001, 1.0), st.floats(0.001, 1.0)), name=st.sampled_from(sorted(DEVICES)))
def test_more_changed_pixels_take_no_less(shares: tuple[float, float], name: str) -> None:
    few, many = (predicted(share, name) for share in sorted(shares))
    assert few.milliseconds <= many.milliseconds * (1 + 1e-9)
    assert few.launches == many.launches


@pytest.mark.parametrize("name", sorted(DEVICES))
def test_a_frame_takes_no_less_than_its_launches(name: str) -> None:
    gap_us = DEVICES[name].launch_gap_us
    for frame in (predicted(0.01, name), predicted(1.0, name), dense_frame(LAYOUT, DEVICES[name])):
        assert 1e3 * frame.milliseconds >= frame.launches * gap_us
        assert frame.bound in frame.microseconds


def test_every_launch_is_listed() -> None:
    work = plan_work(PLAN, LAYOUT, counted(PLAN, 0.1))
    assert len(work) == launches(PLAN, LAYOUT) == predicted(0.1).launches - 2  # two memsets come before
    assert all(launch.moved >= 0 and launch.grid >= launch.programs for launch in work)


@pytest.mark.skipif(DEVICE_NAME != "cpu", reason="a captured frame is launched by CUDA")
@settings(max_examples=3)
@given(seed=seeds, criterion=st.sampled_from([None, *Criterion]))
def test_the_executor_launches_as_many(seed: int, criterion: Criterion | None) -> None:
    graph = MIXED.graph if criterion else random_model(seed).graph
    program = Program(graph, TRITON)
    if criterion:
        rng = np.random.default_rng(seed)
        some = [name for name in program.kept if rng.random() < 0.5]
        program.set_thresholds({name: DeltaThreshold(threshold=0.1, criterion=criterion) for name in some})
    with pytest.MonkeyPatch.context() as patch:
        launched = _counting(patch)
        height, width = program.input.size
        change(program, torch.rand((height, width, 3), device=DEVICE), np.ones((height, width), np.uint8))
        program.execute()
    calls = [step for step in program.plan.steps if isinstance(step, Call)]
    beside = len(calls) + sum(step.operator.output in program.layout.maps for step in calls)  # ATen's, and a copy
    memsets = launched["squared_changes"]
    assert launches(program.plan, program.layout) == sum(launched.values()) + beside + memsets


def _counting(patch: pytest.MonkeyPatch) -> Counter[str]:
    """Count the launches of our kernels from now on, instead of running them, which takes the interpreter minutes.

    The number of launches does not depend on what they write: a captured frame launches the same ones every time.
    """
    launched: Counter[str] = Counter()

    class Counted:
        def __init__(self, name: str) -> None:
            self._name = name

        def __getitem__(self, grid: tuple[int, ...]) -> Callable[..., Any]:
            launched[self._name] += 1
            return lambda *arguments, **keywords: None

    for name in ("propagate", "combine_sets", "fill_if_any", "squared_changes", "commit"):
        patch.setattr(set_kernels, name, Counted(name))

    def counted_call(self: PixelLaunch, *arguments: Any, **keywords: Any) -> None:
        launched["pixels"] += 1

    patch.setattr(PixelLaunch, "__call__", counted_call)
    return launched


def test_frames_that_need_no_copy_are_compared_sooner() -> None:
    changed, name = PLAN.input.pixels // 20, "orin-agx"
    shared = input_us(PLAN, LAYOUT, changed, DEVICES[name], on_device=True)
    copied = input_us(PLAN, LAYOUT, changed, replace(DEVICES[name], shares_memory=False), on_device=True)
    of_levels = 3 * PLAN.input.pixels
    assert copied - shared == pytest.approx(DEVICES[name].copy_us + of_levels / (1e3 * DEVICES[name].bus_gb_s))
    assert shared >= 3 * DEVICES[name].launch_gap_us
    few, many = (input_us(PLAN, LAYOUT, n, DEVICES["h100"], on_device=False) for n in (changed, 2 * changed))
    assert many - few == pytest.approx(changed * (4 + 12) / 64e3)  # a place and three floats


def test_graphs_with_global_operators_have_a_time() -> None:
    graph: Graph = graph_of(nn.Sequential(nn.Conv2d(3, 4, 3), nn.Flatten(), nn.Softmax(1)), (12, 12))
    layout = lay_out(graph)
    plan = Planner(layout).plan()
    assert any(isinstance(step, Call) for step in plan.steps)
    assert sparse_frame(plan, layout, counted(plan, 0.2), DEVICES["h100"]).milliseconds > 0
    assert dense_frame(layout, DEVICES["h100"]).milliseconds > 0


@given(share=st.sampled_from([0.01, 0.2, 1.0]), cameras=st.integers(2, 8))
def test_cameras_together_share_launches_and_no_more(share: float, cameras: int) -> None:
    """A pass over several cameras takes longer than one frame, and less than the frames one after the other."""
    counts = counted(PLAN, share)
    one, all_of_them = (
        sparse_frame(PLAN, LAYOUT, counts, DEVICES["orin-agx"], cameras=number) for number in (1, cameras)
    )
    assert one.milliseconds < all_of_them.milliseconds < cameras * one.milliseconds
    assert one.launches < all_of_them.launches < cameras * one.launches
    alone, together = (plan_work(PLAN, LAYOUT, counts, cameras=number) for number in (1, cameras))
    assert sum(launch.products for launch in together) <= cameras * sum(launch.products for launch in alone)
