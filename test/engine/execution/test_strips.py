# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Operators computed strip by strip give the same bits in less memory, and every plan of strips is consistent."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from lowered import graph_of
from networks.random_models import random_model, seeds
from programs import assert_same_outputs
from row_kernels import HAS_BFLOAT16
from torch import Tensor, nn

from cacheinf_ros.engine.backends import NativeBackend, choose_backend
from cacheinf_ros.engine.caching import Caching
from cacheinf_ros.engine.engine_config import Precision
from cacheinf_ros.engine.execution.graph_planner import Planner
from cacheinf_ros.engine.execution.lines import lines_read
from cacheinf_ros.engine.execution.segments import Segmenting
from cacheinf_ros.engine.execution.strips import Part, Segment
from cacheinf_ros.engine.layout import Layout, lay_out
from cacheinf_ros.engine.lifetimes import lifetimes
from cacheinf_ros.engine.program import Program
from cacheinf_ros.graph.ir import Graph, Pointwise
from cacheinf_ros.memory import least_for_offsets

cache_sizes = st.sampled_from([2_000, 8_000, 20_000, 60_000])


class _Inverted(nn.Module):
    """Inverted residual blocks as in light networks: widen, convolve depthwise, narrow; two with a residual."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, width, 3, 2, 1)
        self.blocks = nn.ModuleList(
            nn.Sequential(
                nn.Conv2d(width, 6 * width, 1),
                nn.ReLU6(),
                nn.Conv2d(6 * width, 6 * width, kernel, stride, kernel // 2, groups=6 * width),
                nn.Hardswish(),
                nn.Conv2d(6 * width, width, 1),
            )
            for kernel, stride in ((3, 1), (3, 2), (5, 1))
        )
        self.head = nn.Conv2d(width, 5, 1)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.relu(self.stem(x))
        for block in self.blocks:
            y = block(x)
            x = x + y if x.shape == y.shape else y
        return self.head(x)


class _Branches(nn.Module):
    """Two paths of different reach, concatenated, enlarged and added to their input, with shuffled channels."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.near = nn.Conv2d(3, 32, 3, padding=1), nn.Conv2d(32, 32, 1)
        self.far = nn.Sequential(
            nn.Conv2d(32, 48, 3, padding=2, dilation=2), nn.ReLU(), nn.Conv2d(48, 32, 5, padding=2)
        )
        self.down, self.up = nn.Conv2d(64, 32, 3, 2, 1), nn.Conv2d(32, 32, 3, padding=1)
        self.head = nn.Conv2d(32, 4, 1)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.relu(self.stem(x))
        both = nn.functional.channel_shuffle(torch.cat([self.near(x), self.far(x)], dim=1), 2)
        small = self.up(nn.functional.max_pool2d(torch.relu(self.down(both)), 3, 1, 1))
        return self.head(nn.functional.interpolate(small, scale_factor=2.0, mode="bilinear") + x)


class _Columns(nn.Module):
    """Maps of one pixel per line, which are broadcast to every column."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.head = nn.Conv2d(3, 16, 3, padding=1), nn.Conv2d(16, 4, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        y = self.stem(x)
        column = torch.sigmoid(y.mean(3, keepdim=True))
        return self.head(y * torch.tanh(nn.functional.interpolate(column, size=y.shape[2:])))


def _programs(graph: Graph, kernels: NativeBackend, cache_bytes: int) -> list[Program]:
    """Return two programs of a graph: one that computes in strips where possible, and one that never does."""
    programs = []
    for kernels.strip_bytes in (cache_bytes, 0):
        programs.append(Program(graph, kernels, Caching.nothing(lay_out(graph)), debug_memory=True))
    return programs


def _native(threads: int, precision: Precision = Precision.FLOAT32) -> NativeBackend:
    kernels = choose_backend("cpu", threads, precision)
    assert isinstance(kernels, NativeBackend)
    return kernels


def _segments(graph: Graph, cache_bytes: int) -> tuple[Layout, list[Segment]]:
    layout = lay_out(graph)
    caching = Caching.nothing(layout)
    return layout, Segmenting(Planner(layout).plan(caching).steps, layout, caching, cache_bytes).segments()


def _assert_holds_together(layout: Layout, segment: Segment) -> None:
    """Check that every line is computed once, from lines that have been computed and that are still in memory."""
    operators = {operator.output: operator for operator in layout.operators if operator.output in segment.outputs}
    computed = dict.fromkeys(segment.outputs, 0)
    first = dict.fromkeys(segment.buffers, 0)

    def assert_there(name: str, lines: range) -> None:
        root = segment.lies_in.get(name)
        if root is not None:
            assert first[root] <= lines.start and lines.stop <= first[root] + segment.buffers[root]

    for work in segment.work:
        if not isinstance(work, Part):
            assert segment.lies_in[work.map] == work.map
            assert len(work.lines) <= work.lines.start - first[work.map], "lines are moved onto themselves"
            assert work.lines.stop <= first[work.map] + segment.buffers[work.map]
            first[work.map] = work.lines.start
            continue
        assert work.lines and work.lines.start == computed[work.output]
        operator = operators[work.output]
        for position, name in enumerate(operator.inputs):
            if read := lines_read(layout, operator, position, work.lines):
                assert all(read.stop <= computed.get(leaf, read.stop) for leaf in layout.leaves[name])
                assert_there(name, read)
        assert_there(work.output, work.lines)
        computed[work.output] = work.lines.stop
    assert computed == {name: layout.spec(name).size[0] for name in segment.outputs}


@settings(max_examples=30)
@given(seed=seeds, threads=st.integers(1, 3), cache_bytes=cache_sizes)
@example(seed=164128, threads=1, cache_bytes=60_000)  # a buffer is read and written in pieces only
def test_random_networks(seed: int, threads: int, cache_bytes: int) -> None:
    """Outputs agree bit for bit, except where torch computes: see :mod:`test_caching`."""
    graph = random_model(seed).graph
    by_torch = any(isinstance(operator, Pointwise) for operator in graph.operators)
    assert_same_outputs(
        graph, _programs(graph, _native(threads), cache_bytes), seed, rounding=1e-5 if by_torch else 0.0
    )


@settings(max_examples=12)
@given(
    width=st.sampled_from([3, 8, 20]),
    size=st.tuples(st.integers(20, 70), st.integers(20, 70)),
    threads=st.integers(1, 3),
    cache_bytes=st.sampled_from([4_000, 20_000]),
)
def test_inverted_bottlenecks(width: int, size: tuple[int, int], threads: int, cache_bytes: int) -> None:
    graph = graph_of(_Inverted(width), size)
    programs = _programs(graph, _native(threads), cache_bytes)
    assert_same_outputs(graph, programs, width)
    assert programs[0].maps.arena_bytes <= programs[1].maps.arena_bytes


@pytest.mark.parametrize("cache_bytes", [10_000, 40_000, 100_000])
def test_branches(cache_bytes: int) -> None:
    graph = graph_of(_Branches(), (48, 56))
    assert _segments(graph, cache_bytes)[1]
    programs = _programs(graph, _native(2), cache_bytes)
    assert_same_outputs(graph, programs, 0)
    assert programs[0].maps.arena_bytes <= programs[1].maps.arena_bytes


@pytest.mark.parametrize("cache_bytes", [1_000, 4_000, 20_000])
@pytest.mark.parametrize("threads", [1, 2])
def test_columns(cache_bytes: int, threads: int) -> None:
    """A buffer one pixel wide must not be mistaken for one that is broadcast to every pixel."""
    graph = graph_of(_Columns(), (24, 30))
    layout, segments = _segments(graph, cache_bytes)
    buffered = {layout.spec(name).size[1] for segment in segments for name in segment.buffers}
    assert cache_bytes > 4_000 or 1 in buffered
    assert_same_outputs(graph, _programs(graph, _native(threads), cache_bytes), 0)


@pytest.mark.skipif(not HAS_BFLOAT16, reason="this processor has no AVX512_BF16")
def test_in_bfloat16() -> None:
    graph = graph_of(_Inverted(20), (64, 50))
    assert_same_outputs(graph, _programs(graph, _native(2, Precision.BFLOAT16), 20_000), 0)


@settings(max_examples=60)
@given(seed=seeds, cache_bytes=cache_sizes)
def test_plans_hold_together_and_take_no_more_memory(seed: int, cache_bytes: int) -> None:
    layout, segments = _segments(random_model(seed).graph, cache_bytes)
    for segment in segments:
        _assert_holds_together(layout, segment)
    caching = Caching.nothing(layout)
    steps = Planner(layout).plan(caching).steps
    ours, whole = (lifetimes(steps, layout, caching, segments=s) for s in (segments, ()))
    if whole:
        assert least_for_offsets(ours) <= least_for_offsets(whole)


@pytest.mark.parametrize("network", [_Inverted(8), _Branches()])
def test_large_maps_are_never_whole(network: nn.Module) -> None:
    """Of maps of 160 x 120 pixels, with caches of 128 KiB, only those alive between two chains take much memory."""
    layout, segments = _segments(graph_of(network, (120, 160)), 1 << 17)
    assert segments
    for segment in segments:
        _assert_holds_together(layout, segment)
    assert any(lines < layout.spec(name).size[0] / 4 for segment in segments for name, lines in segment.buffers.items())


def test_what_fits_into_the_caches_is_computed_as_a_whole() -> None:
    assert not _segments(graph_of(_Inverted(8), (40, 40)), 1 << 20)[1]


def test_times_of_operators_are_those_of_their_parts() -> None:
    graph = graph_of(_Inverted(20), (64, 50))
    program = _programs(graph, _native(1), 20_000)[0]
    program.input.pixels.copy_(torch.rand(program.input.pixels.shape))
    program.changed_input.fill()
    program.execute(refresh=True)
    took = program.profile.microseconds
    assert took.keys() == {operator.output for operator in program.layout.operators}
    assert min(took.values()) > 0
    assert program.profile.time(next(iter(took)), alternative=False) > 0


def test_an_unchanged_frame_computes_nothing() -> None:
    graph = graph_of(_Inverted(20), (64, 50))
    program = _programs(graph, _native(1), 20_000)[0]
    program.input.pixels.copy_(torch.rand(program.input.pixels.shape))
    program.changed_input.fill()
    before = [value.clone() for value in program.execute().values()]
    program.changed_input.clear()
    program.input.pixels.zero_()
    assert all(np.array_equal(a, b) for a, b in zip(before, program.execute().values(), strict=True))
