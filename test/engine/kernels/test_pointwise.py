# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Operators that treat every pixel on its own: compiled kernels equal the reference kernels and torch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from row_kernels import CHANNELS, NATIVE, REFERENCE, SIZES, check, filled, native_calls, run_native
from torch.nn import functional

from cacheinf_ros.engine.buffers import MapBuffer
from cacheinf_ros.graph.activation import LINEAR, Activation, ActivationKind
from cacheinf_ros.graph.ir import (
    ChannelNorm,
    ChannelSoftmax,
    Combine,
    Elementwise,
    Pointwise,
    Select,
    TensorRef,
)
from cacheinf_ros.graph.window import Pair

SEEDS = st.integers(0, 1000)
COMBINE: dict[Combine, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    combine: getattr(torch, combine.value) for combine in Combine
}


@pytest.mark.parametrize("kind", ActivationKind)
def test_activation_is_as_accurate_as_torch(kind: ActivationKind) -> None:
    """Activations are compared with double precision at all magnitudes. NaN stays NaN; else only torch's are, too."""
    sizes = torch.cat(
        [torch.logspace(-30, 4, 5000), torch.linspace(0, 30, 5000), torch.tensor([1e20, torch.inf, torch.nan])]
    )
    values = torch.cat([sizes, -sizes]).view(-1, 2)
    slope = torch.tensor([0.25, 0.5]) if kind is ActivationKind.PRELU else None
    activation = Activation(kind=kind, low=-1.0, high=2.0, slope=slope, alpha=0.75)
    op = Elementwise(name="e", inputs=("x",), output="y", activation=activation)
    rows = np.arange(len(values), dtype=np.int32)
    exact = replace(activation, slope=None if slope is None else slope.double())(values.double())
    source = MapBuffer(pixels=values, size=(1, len(values)))
    for kernels, call in native_calls(op, [source], 2):
        result = run_native(kernels, call, rows, rows, *values.shape)
        assert not bool((result.isnan() & ~activation(values).isnan()).any())
        assert bool(result[values.isnan()].isnan().all()), "a score of NaN was 1.0"
        error = (result - exact).abs() / exact.abs().clamp(min=1e-30)
        if kind in (ActivationKind.GELU, ActivationKind.GELU_TANH):  # 1 + erf(x) loses digits, in torch too
            error = (result - exact).abs() / values.abs().clamp(min=1.0)
        assert float(error[exact.abs() < 1e30].max()) < 5e-7


@given(
    size=SIZES,
    channels=CHANNELS,
    combine=st.sampled_from([None, *Combine]),
    second=st.sampled_from(["map", "pixel", "itself"]),
    affine=st.sampled_from(["", "scale", "shift", "scale shift"]),
    activation=st.sampled_from([LINEAR, Activation.relu(), Activation(kind=ActivationKind.SIGMOID)]),
    seed=SEEDS,
)
def test_elementwise(
    size: Pair, channels: int, combine: Combine | None, second: str, affine: str, activation: Activation, seed: int
) -> None:
    torch.manual_seed(seed)
    sources = [filled(size, channels, seed)]
    if combine and second != "itself":
        sources.append(filled((1, 1) if second == "pixel" else size, channels, seed + 1))
    op = Elementwise(
        name="e", inputs=("a", "b")[: len(sources)], output="y", combine=combine, activation=activation,
        scale=torch.randn(channels) if "scale" in affine else None,
        shift=torch.randn(channels) if "shift" in affine else None,
    )  # fmt: skip
    expected = sources[0].image
    if combine:
        expected = COMBINE[combine](expected, sources[-1].image)
    expected = expected if op.scale is None else expected * op.scale.view(-1, 1, 1)
    expected = expected if op.shift is None else expected + op.shift.view(-1, 1, 1)
    check(op, sources, activation(expected), seed=seed)


@given(size=SIZES, channels=CHANNELS, offset=st.sampled_from([0.0, 10.0, -100.0]), seed=SEEDS)
def test_channel_norm(size: Pair, channels: int, offset: float, seed: int) -> None:
    torch.manual_seed(seed)
    source = filled(size, channels, seed)
    source.pixels.add_(offset)
    op = ChannelNorm(
        name="n", inputs=("x",), output="y", weight=torch.randn(channels), bias=torch.randn(channels), epsilon=1e-3
    )  # fmt: skip
    last = functional.layer_norm(source.image.permute(0, 2, 3, 1), (channels,), op.weight, op.bias, op.epsilon)
    check(op, [source], last.permute(0, 3, 1, 2), seed=seed, error=1e-3 if offset else 1e-5)


@given(size=SIZES, channels=CHANNELS, log=st.booleans(), scale=st.sampled_from([1.0, 1e3]), seed=SEEDS)
def test_channel_softmax(size: Pair, channels: int, log: bool, scale: float, seed: int) -> None:
    source = filled(size, channels, seed)
    source.pixels.mul_(scale)
    op = ChannelSoftmax(name="s", inputs=("x",), output="y", log=log)
    check(op, [source], (torch.log_softmax if log else torch.softmax)(source.image, 1), seed=seed)


@st.composite
def selections(draw: st.DrawFn) -> tuple[int, tuple[int, ...]]:
    """Draw the number of input channels and the selected ones: slices, shuffles in groups, or any."""
    channels = draw(CHANNELS)
    kind = draw(st.sampled_from(["slice", "shuffle", "any"]))
    if kind == "slice":
        first = draw(st.integers(0, channels - 1))
        return channels, tuple(range(first, draw(st.integers(first + 1, channels))))
    if kind == "shuffle":
        groups = draw(st.integers(1, 5))
        order = np.arange(channels * groups).reshape(groups, channels).T.ravel()
        return channels * groups, tuple(int(c) for c in order)
    return channels, tuple(draw(st.lists(st.integers(0, channels - 1), min_size=1, max_size=90)))


@given(size=SIZES, selection=selections(), seed=SEEDS)
def test_select(size: Pair, selection: tuple[int, tuple[int, ...]], seed: int) -> None:
    source = filled(size, selection[0], seed)
    op = Select(name="s", inputs=("x",), output="y", channels=selection[1])
    check(op, [source], source.image[:, list(selection[1])], seed=seed, error=0.0)


@given(size=SIZES, channels=CHANNELS)
def test_any_other_call_is_left_to_torch(size: Pair, channels: int) -> None:
    sources = [filled(size, channels, 0), filled((1, 1), channels, 1)]
    op = Pointwise(
        name="p", inputs=("a", "b"), output="y", call=torch.logaddexp, arguments=(TensorRef("a"), TensorRef("b"))
    )  # fmt: skip
    rows = torch.arange(0, size[0] * size[1], 2)
    expected = torch.logaddexp(sources[0].image, sources[1].image)[0].flatten(1).t()
    torch.testing.assert_close(REFERENCE.prepare(op, sources, channels)(rows), expected[rows])
    assert all(kernels.prepare(op, sources, channels).call is None for kernels in NATIVE)
