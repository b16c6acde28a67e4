# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Receptive fields: the paper's example, brute force, and compiled propagation against reference propagation."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from cacheinf_ros.engine.execution.access_pattern import inverse
from cacheinf_ros.engine.execution.active import ActiveSet
from cacheinf_ros.engine.execution.executable import Executable
from cacheinf_ros.engine.execution.native_executor import NativeExecutor
from cacheinf_ros.engine.execution.propagation import BEFORE, BEHIND, Border, TapTable, propagate
from cacheinf_ros.engine.execution.steps import Difference, Propagate, Step, Union
from cacheinf_ros.engine.execution.tensors import Tensors
from cacheinf_ros.engine.kernels.kernel_library import kernel_library
from cacheinf_ros.graph.taps import OUTSIDE, AxisTaps
from cacheinf_ros.graph.window import Window


def propagate_compiled(footprint: Window | TapTable, source: ActiveSet, target: ActiveSet, outside: Border) -> None:
    run_compiled([Propagate(source=source, target=target, footprint=footprint)], outside)


def run_compiled(steps: list[Step], outside: Border = Border.NONE) -> None:
    library = kernel_library()
    assert library is not None, "run `make build`: it compiles the kernels"
    library.ci_threads_create.restype = ctypes.c_void_p
    threads = library.ci_threads_create(1)
    executable = Executable(steps=steps, kernels={}, tensors=Tensors(maps={}, values={}, specs={}))
    NativeExecutor(executable, library, threads, torch_threads=1).execute(outside=outside, refresh=False)
    library.ci_threads_destroy(threads)


def active_set(mask: np.ndarray) -> ActiveSet:
    active = ActiveSet(mask.shape)
    np.copyto(active.mask, mask)
    active.use_mask()
    return active


@pytest.mark.parametrize("outside", [Border.NONE, Border.ALL])
def test_worked_example_of_deepcache(outside: Border) -> None:
    """DeepCache section 4.3: kernel 11, stride 2, padding 5 turn (100, 100, 100, 40) into (53, 53, 45, 15).

    The paper's formula w' = floor((w - k) / s) gives 44 for the width; its example is right: the last output whose
    window ends at pixel 199 is floor((199 + 5 - 10) / 2) = 97, and 53 .. 97 are 45 outputs.
    """
    window = Window(in_size=(227, 227), out_size=(114, 114), kernel=(11, 11), stride=(2, 2), padding=(5, 5))
    mask = np.ones(window.in_size, np.uint8)
    mask[100:140, 100:200] = 0
    expected = np.ones(window.out_size, np.uint8)
    expected[53 : 53 + 15, 53 : 53 + 45] = 0
    for run in (propagate_compiled, lambda w, *rest: propagate(TapTable.of_window(w), *rest)):
        target = ActiveSet(window.out_size)
        run(window, active_set(mask), target, outside)
        assert np.array_equal(target.mask, expected)


borders = st.sampled_from([Border(flags) for flags in range(16)])


@st.composite
def windows(draw: st.DrawFn) -> Window:
    axes = []
    for _ in range(2):
        size, kernel = draw(st.integers(1, 20)), draw(st.integers(1, 5))
        stride, dilation, padding = draw(st.integers(1, 3)), draw(st.integers(1, 2)), draw(st.integers(0, kernel))
        extra = draw(st.sampled_from([0, 1, 2, 17]))  # asymmetric padding, ceil_mode
        out = (size + 2 * padding + extra - dilation * (kernel - 1) - 1) // stride + 1
        axes.append((size, max(1, out), kernel, stride, dilation, padding))
    names = ("in_size", "out_size", "kernel", "stride", "dilation", "padding")
    return Window(**dict(zip(names, zip(*axes, strict=True), strict=True)))


@given(window=windows(), share=st.sampled_from([0.0, 0.03, 0.3]), seed=st.integers(0, 999), outside=borders)
def test_an_output_is_active_exactly_when_it_reads_an_active_pixel(
    window: Window, share: float, seed: int, outside: Border
) -> None:
    mask = (np.random.default_rng(seed).random(window.in_size) < share).astype(np.uint8)

    def is_active(y: int, x: int) -> bool:
        beside = {Border.LEFT: x < 0, Border.RIGHT: x >= mask.shape[1], Border.TOP: y < 0,
                  Border.BOTTOM: y >= mask.shape[0]}  # fmt: skip
        if any(beside.values()):
            return any(there and side in outside for side, there in beside.items())
        return bool(mask[y, x])

    def depends(oy: int, ox: int) -> bool:
        y, x = oy * window.stride[0] - window.padding[0], ox * window.stride[1] - window.padding[1]
        taps = np.ndindex(*window.kernel)
        return any(is_active(y + ky * window.dilation[0], x + kx * window.dilation[1]) for ky, kx in taps)

    expected = np.array([[depends(y, x) for x in range(window.out_size[1])] for y in range(window.out_size[0])])
    for run in (propagate_compiled, lambda w, *rest: propagate(TapTable.of_window(w), *rest)):
        source, target = active_set(mask), ActiveSet(window.out_size)
        if source.count == source.pixels:
            continue  # full sets stay full, also where a window lies beside the image
        run(window, source, target, outside)
        assert np.array_equal(target.mask.astype(bool), expected)
        assert np.array_equal(target.listed, np.flatnonzero(expected))


@given(
    sizes=st.tuples(*[st.integers(1, 15)] * 4),
    taps=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    seed=st.integers(0, 999),
    outside=borders,
)
def test_compiled_propagation_by_tables_equals_the_reference(
    sizes: tuple[int, int, int, int], taps: tuple[int, int], seed: int, outside: Border
) -> None:
    rng = np.random.default_rng(seed)
    tables = [rng.integers(-2, sizes[axis], (sizes[2 + axis], taps[axis])).astype(np.int32) for axis in (0, 1)]
    check_propagation(TapTable(rows=tables[0], columns=tables[1]), sizes[:2], rng, outside)


@given(
    size=st.tuples(st.integers(1, 70), st.integers(1, 70)),
    times=st.tuples(st.integers(1, 4), st.integers(1, 4)),
    cut=st.tuples(st.integers(0, 3), st.integers(0, 3)),
    seed=st.integers(0, 999),
    outside=borders,
)
def test_repeated_lines_grow_like_any_table(
    size: tuple[int, int], times: tuple[int, int], cut: tuple[int, int], seed: int, outside: Border
) -> None:
    """Nearest resizing and pixel shuffles repeat lines like this, the last pixel perhaps less often."""
    rows, columns = (
        np.arange(n, dtype=np.int32).repeat(t)[: max(1, n * t - c)][:, None]
        for n, t, c in zip(size, times, cut, strict=True)
    )
    check_propagation(TapTable(rows=rows, columns=columns), size, np.random.default_rng(seed), outside)


def check_propagation(table: TapTable, size: tuple[int, int], rng: np.random.Generator, outside: Border) -> None:
    source = active_set((rng.random(size) < 0.2).astype(np.uint8))
    if source.count == source.pixels:
        return
    ours, reference = ActiveSet(table.out_size), ActiveSet(table.out_size)
    propagate_compiled(table, source, ours, outside)
    propagate(table, source, reference, outside)
    assert np.array_equal(ours.mask, reference.mask)
    assert np.array_equal(ours.listed, reference.listed)


def test_unused_taps_do_not_reach_outside() -> None:
    taps = AxisTaps(
        index=torch.tensor([[0, 1], [2, OUTSIDE]]), weight=torch.tensor([[0.5, 0.5], [1.0, 0.0]]), in_size=3
    )
    table = TapTable.of_taps(taps, taps)
    assert table.rows.tolist() == [[0, 1], [2, 2]]


@given(size=st.tuples(st.integers(1, 12), st.integers(1, 12)), seed=st.integers(0, 99))
def test_union(size: tuple[int, int], seed: int) -> None:
    rng = np.random.default_rng(seed)
    first, second = (active_set((rng.random(size) < 0.3).astype(np.uint8)) for _ in range(2))
    target = ActiveSet(size)
    run_compiled([Union(first=first, second=second, target=target)])
    assert np.array_equal(target.listed, np.flatnonzero(first.mask | second.mask))


def test_padding_of_a_resampling_lies_before_or_behind() -> None:
    taps = AxisTaps(index=torch.tensor([[OUTSIDE], [OUTSIDE], [0], [1], [OUTSIDE]]), weight=torch.ones(5, 1), in_size=2)
    assert TapTable.of_taps(taps, taps).rows.ravel().tolist() == [BEFORE, BEFORE, 0, 1, BEHIND]


def test_padding_takes_the_place_of_pixels_only_where_they_leave() -> None:
    assert Border.left_behind(3, 0) is Border.RIGHT
    assert Border.left_behind(-1, -2) == Border.LEFT | Border.TOP
    assert Border.left_behind(0, 5) is Border.BOTTOM
    assert Border.left_behind(0, 0) is Border.NONE


@given(
    sizes=st.tuples(st.integers(3, 12), st.integers(3, 12)),
    kernel=st.integers(1, 4),
    stride=st.integers(1, 3),
    dilation=st.integers(1, 2),
    padding=st.integers(0, 5),
    seed=st.integers(0, 999),
)
def test_back_through_a_window_are_the_inputs_that_it_reads(
    sizes: tuple[int, int], kernel: int, stride: int, dilation: int, padding: int, seed: int
) -> None:
    """This also holds for padding beyond the window's reach, and for strides that skip inputs."""
    reach = dilation * (kernel - 1) + 1
    out = tuple(max(1, (size + 2 * padding - reach) // stride + 1) for size in sizes)
    window = Window(
        in_size=sizes, out_size=(out[0], out[1]), kernel=(kernel, kernel), stride=(stride, stride),
        dilation=(dilation, dilation), padding=(padding, padding),
    )  # fmt: skip
    mask = (np.random.default_rng(seed).random(window.out_size) < 0.2).astype(np.uint8)
    expected = np.zeros(sizes, np.uint8)
    for y, x in np.argwhere(mask):
        for dy in range(kernel):
            for dx in range(kernel):
                place = y * stride - padding + dy * dilation, x * stride - padding + dx * dilation
                if 0 <= place[0] < sizes[0] and 0 <= place[1] < sizes[1]:
                    expected[place] = 1
    footprint = inverse(window, sizes)
    source, target = active_set(mask), ActiveSet(sizes)
    run_compiled([Propagate(source=source, target=target, footprint=footprint, inwards=True)], Border.ALL)
    if mask.all():  # compiled code takes all outputs for all inputs
        assert target.count == target.pixels
        return
    assert np.array_equal(target.mask, expected)
    plain = TapTable.of_window(footprint) if isinstance(footprint, Window) else footprint
    propagate(plain, source, target)
    assert np.array_equal(target.mask, expected)


def test_subtracting() -> None:
    first, second = (active_set((np.random.default_rng(s).random((9, 70)) < 0.5).astype(np.uint8)) for s in (0, 1))
    target, everything = ActiveSet((9, 70)), active_set(np.ones((9, 70), np.uint8))
    run_compiled([Difference(source=first, without=second, target=target)])
    assert np.array_equal(target.listed, np.flatnonzero(first.mask > second.mask))
    run_compiled([Difference(source=everything, without=second, target=target)])
    assert np.array_equal(target.listed, np.flatnonzero(second.mask == 0))
    run_compiled([Difference(source=first, without=everything, target=target)])
    assert target.count == 0 and not target.mask.any()
