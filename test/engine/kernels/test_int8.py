# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Kernels on int8 levels equal whole numbers in torch, and all instruction sets of this machine agree bit for bit."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
import torch
from emulation.emulated_library import library_beside
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from row_kernels import CPU, IS_EMULATED, windows
from torch.nn import functional

from cacheinf_ros.engine import Precision
from cacheinf_ros.engine.backends import Backend, NativeBackend, choose_backend
from cacheinf_ros.engine.buffers import MapBuffer
from cacheinf_ros.engine.kernels import NativeCall
from cacheinf_ros.engine.kernels.abi import Int8KernelKind, Status
from cacheinf_ros.engine.kernels.int8_kernels import rounded_weights, to_levels, to_values
from cacheinf_ros.graph import ir
from cacheinf_ros.graph.activation import Activation, ActivationKind
from cacheinf_ros.graph.ir import Levels
from cacheinf_ros.graph.window import Window, exact_border

IN, OUT = Levels(scale=0.02, zero=37), Levels(scale=0.25, zero=90)
BACKEND = choose_backend("cpu", 2, Precision.INT8)
BACKENDS = [BACKEND, NativeBackend(library_beside(), 1, int8=True)] if IS_EMULATED else [BACKEND]
SETS = [(backend, name) for backend in BACKENDS for name in (b"avx512", b"avx2", b"i8mm", b"dotprod", b"base")]
BEST = [(BACKEND, None)]
WITHOUT_TILES = [
    NativeBackend(each.library, 2, int8=True, tiles=False) for each in [BACKEND] if isinstance(each, NativeBackend)
]
pytestmark = pytest.mark.skipif(not BACKEND.takes_levels, reason="the compiled kernels are not built")


def filled(size: tuple[int, int], channels: int, seed: int, levels: Levels = IN) -> MapBuffer:
    """Return a map of random levels that lies inside of a wider map."""
    generator = torch.Generator().manual_seed(seed)
    before, after = (int(n) for n in torch.randint(0, 4, (2,), generator=generator))
    whole = MapBuffer.allocate(size, before + channels + after, CPU, levels)
    whole.pixels.random_(0, 256, generator=generator)
    return whole.channels(before, channels)


def run(
    call: NativeCall,
    rows: NDArray[np.int32],
    pixels: int,
    channels: int,
    out: Levels | None,
    instruction_sets: Sequence[tuple[Backend, bytes | None]] = SETS,
) -> torch.Tensor:
    """Compute the listed rows with all these instruction sets; they must agree, and write nothing else."""
    results = []
    for backend, name in instruction_sets:
        assert isinstance(backend, NativeBackend)
        kind = call.kind
        is_for_the_best = kind in (Int8KernelKind.CONV_INT8, Int8KernelKind.CONV_INT8_TILES)
        if is_for_the_best and name != backend.library.ci_instruction_set():
            continue
        if kind is Int8KernelKind.CONV_INT8:
            kind = kind if backend.library.ci_has_byte_dot() else Int8KernelKind.CONV_INT8_PAIRS
        whole = MapBuffer.allocate((1, pixels), channels + 5, CPU, out).pixels.fill_(77)
        target = whole[:, 3 : 3 + channels]
        status = backend.library.ci_run_kernel(
            backend.threads, name, kind, ctypes.byref(call.params), rows.ctypes.data, rows.ctypes.data, len(rows),
            target.data_ptr(), whole.stride(0),
        )  # fmt: skip
        if status == Status.NONSENSE:
            continue  # this machine lacks this instruction set
        assert status == Status.DONE
        listed = torch.from_numpy(rows).long()
        results.append(target[listed].clone())
        target[listed] = 77
        assert bool((whole == 77).all()), "written beside the listed rows"
    assert all(torch.equal(results[0], other) for other in results[1:])
    return results[0]


def kernels_of(call: NativeCall) -> Sequence[NativeCall]:
    return (
        (call, replace(call, kind=Int8KernelKind.CONV_INT8_PAIRS)) if call.kind is Int8KernelKind.CONV_INT8 else (call,)
    )


def some_rows(pixels: int, seed: int) -> NDArray[np.int32]:
    generator = np.random.default_rng(seed)
    return np.flatnonzero(generator.random(pixels) < generator.choice([0.1, 0.7, 1.1])).astype(np.int32)


ACTIVATIONS = [
    Activation(),
    Activation.clamp(0.0, 3.0),
    Activation(kind=ActivationKind.SILU),
    Activation(kind=ActivationKind.PRELU, slope=torch.full((1,), 0.2)),
]


@given(
    window=windows(largest=4),
    shape=st.sampled_from([(1, 3, 8), (1, 8, 33), (1, 20, 70), (2, 4, 5), (3, 5, 36), (6, 1, 1), (70, 1, 1)]),
    activation=st.sampled_from(ACTIVATIONS),
    residual=st.sampled_from([None, False, True]),
    out=st.sampled_from([OUT, None]),
    seed=st.integers(0, 1000),
)
def test_convolutions_are_those_of_whole_numbers(
    window: Window,
    shape: tuple[int, int, int],
    activation: Activation,
    residual: bool | None,
    out: Levels | None,
    seed: int,
) -> None:
    torch.manual_seed(seed)
    groups, inputs, outputs = shape
    weight = torch.randn(groups * outputs, inputs, *window.kernel)
    if activation.slope is not None:
        activation = replace(activation, slope=activation.slope.expand(groups * outputs))
    op = ir.Int8Conv(
        name="conv", inputs=("x",), output="y", window=window, groups=groups, activation=activation, weight=weight,
        bias=torch.randn(groups * outputs), residual_last=bool(residual),
        weight_scale=weight.abs().amax((1, 2, 3)) / 127,
    )  # fmt: skip
    sources = [filled(window.in_size, groups * inputs, seed)]
    if residual is not None:
        sources.append(filled(window.out_size, groups * outputs, seed + 1, OUT))
    rows = some_rows(window.out_size[0] * window.out_size[1], seed)
    expected = _convolved(op, sources, out)[torch.from_numpy(rows).long()]
    calls = [each.prepare(op, sources, groups * outputs, out).call for each in (BACKEND, *WITHOUT_TILES)]
    every = [
        run(each, rows, window.out_size[0] * window.out_size[1], groups * outputs, out)
        for call in calls
        if call is not None
        for each in kernels_of(call)
    ]
    assert len(every) >= len(calls)
    for got in every:
        assert torch.equal(got, every[0])
        if out is None:
            torch.testing.assert_close(got, expected, atol=1e-4, rtol=1e-5)
        else:  # where two levels are nearly as near, torch's rounding may choose the other
            difference = (got.int() - to_levels(expected, out).int()).abs()
            assert _largest(difference) <= 1 and difference.float().mean().nan_to_num() < 0.02


def _convolved(op: ir.Int8Conv, sources: Sequence[MapBuffer], out: Levels | None) -> torch.Tensor:
    """Compute a convolution from exact sums: float32 [pixels, channels]."""
    window = op.window
    image = (sources[0].image.double() - IN.zero).contiguous()
    padded = functional.pad(image, exact_border(window))
    weight = rounded_weights(op).double()
    sums = functional.conv2d(padded, weight, None, window.stride, 0, window.dilation, op.groups)
    unit = IN.scale * op.weight_scale.double()
    bias = (op.bias.double() / unit).round()
    value = ((sums[0].flatten(1).t() + bias) * unit).float()
    if len(sources) == 1:
        return _activated(op.activation, value)
    residual = to_values(sources[1].pixels, OUT)
    if op.residual_last:
        return _activated(op.activation, value) + residual
    return _activated(op.activation, value + residual)


def _largest(differences: torch.Tensor) -> int:
    return int(differences.max()) if differences.numel() else 0


def _activated(activation: Activation, value: torch.Tensor) -> torch.Tensor:
    return activation(value.t()[None, :, :, None])[0, :, :, 0].t()


@settings(max_examples=40)
@given(
    window=windows(largest=3), channels=st.sampled_from([1, 7, 16, 40]), average=st.booleans(), seed=st.integers(0, 99)
)
def test_pooling(window: Window, channels: int, average: bool, seed: int) -> None:
    op = ir.Pool(name="pool", inputs=("x",), output="y", window=window, average=average)
    if average and window.dilation != (1, 1):
        return
    source, out = filled(window.in_size, channels, seed), OUT if average else IN
    rows = some_rows(window.out_size[0] * window.out_size[1], seed)
    call = BACKEND.prepare(op, [source], channels, out).call
    assert call is not None
    floats = MapBuffer.allocate(window.in_size, channels, CPU)
    floats.pixels.copy_(to_values(source.pixels, IN))
    plain = choose_backend("cpu", 1).prepare(op, [floats], channels).call
    assert plain is not None
    pixels = window.out_size[0] * window.out_size[1]
    expected = to_levels(run(plain, rows, pixels, channels, None, BEST), out)
    difference = (run(call, rows, pixels, channels, out).int() - expected.int()).abs()
    assert _largest(difference) <= int(average)


@settings(max_examples=30)
@given(combine=st.sampled_from([None, *ir.Combine]), channels=st.sampled_from([1, 7, 16, 40]), seed=st.integers(0, 99))
def test_arithmetic_of_levels_and_floats(combine: ir.Combine | None, channels: int, seed: int) -> None:
    torch.manual_seed(seed)
    op = ir.Elementwise(
        name="e", inputs=("a", "b") if combine else ("a",), output="y", combine=combine,
        scale=torch.rand(channels), activation=Activation(kind=ActivationKind.SIGMOID),
    )  # fmt: skip
    a, b = filled((5, 6), channels, seed), MapBuffer.allocate((1, 1), channels, CPU)
    b.pixels.uniform_(1, 2)
    out, rows = Levels(scale=1 / 255, zero=0), some_rows(30, seed)
    call = BACKEND.prepare(op, [a, b] if combine else [a], channels, out).call
    floats = MapBuffer.allocate((5, 6), channels, CPU)
    floats.pixels.copy_(to_values(a.pixels, IN))
    plain = choose_backend("cpu", 1).prepare(op, [floats, b] if combine else [floats], channels).call
    assert call is not None and plain is not None
    expected = to_levels(run(plain, rows, 30, channels, None, BEST), out)
    difference = (run(call, rows, 30, channels, out).int() - expected.int()).abs()
    assert _largest(difference) <= 1
