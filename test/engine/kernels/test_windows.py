# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Convolutions and pooling: compiled kernels equal the reference kernels and torch."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from row_kernels import CHANNELS, check, filled, native_calls, run_native, windows, with_border
from torch.nn import functional

from cacheinf_ros.engine.buffers import MapBuffer
from cacheinf_ros.graph.activation import LINEAR, Activation, ActivationKind
from cacheinf_ros.graph.ir import Conv, Pool
from cacheinf_ros.graph.window import Pair, Window

ACTIVATIONS = st.sampled_from([LINEAR, Activation.relu(), Activation.clamp(-0.5, 0.5), "prelu", "silu"])
SEEDS = st.integers(0, 1000)


def _activation(name: Activation | str, channels: int) -> Activation:
    """Return an activation; a PReLU's slope has as many values as there are channels."""
    if isinstance(name, Activation):
        return name
    return Activation(kind=ActivationKind(name), slope=torch.rand(channels) if name == "prelu" else None)


def _convolved(op: Conv, image: torch.Tensor, residual: torch.Tensor | None) -> torch.Tensor:
    w = op.window
    padded = with_border(image, w, 0.0)
    result = functional.conv2d(padded, op.weight, op.bias, w.stride, 0, w.dilation, op.groups)
    result = result[:, :, : w.out_size[0], : w.out_size[1]]
    if residual is None:
        return op.activation(result)
    return op.activation(result) + residual if op.residual_last else op.activation(result + residual)


def _check_convolution(
    window: Window, groups: int, inputs: int, outputs: int, activation: Activation | str, residual: str, seed: int
) -> None:
    torch.manual_seed(seed)
    scale = (inputs * window.kernel[0] * window.kernel[1]) ** -0.5
    op = Conv(
        name="conv", inputs=("x",) if residual == "none" else ("x", "r"), output="y", window=window, groups=groups,
        weight=torch.randn(groups * outputs, inputs, *window.kernel) * scale, bias=torch.randn(groups * outputs),
        activation=_activation(activation, groups * outputs), residual_last=residual == "last",
    )  # fmt: skip
    sources = [filled(window.in_size, groups * inputs, seed)]
    if residual != "none":
        sources.append(filled(window.out_size, groups * outputs, seed + 1))
    expected = _convolved(op, sources[0].image, None if residual == "none" else sources[1].image)
    check(op, sources, expected, seed=seed, error=1e-4)


@given(
    window=windows(),
    groups=st.sampled_from([1, 1, 1, 2, 5]),
    inputs=st.sampled_from([1, 3, 8, 16, 32]),
    outputs=st.sampled_from([1, 4, 16, 17, 33, 64]),
    activation=ACTIVATIONS,
    residual=st.sampled_from(["none", "first", "last"]),
    seed=SEEDS,
)
def test_convolution(
    window: Window, groups: int, inputs: int, outputs: int, activation: Activation | str, residual: str, seed: int
) -> None:
    _check_convolution(window, groups, inputs, outputs, activation, residual, seed)


@pytest.mark.parametrize("pixels", [1, 2])  # a linear layer has one, whose products are summed otherwise
@pytest.mark.parametrize("outputs", [3, 8, 64])  # few outputs read the inputs in place, many read packed ones
@pytest.mark.parametrize(("channels", "kernel"), [(20000, (1, 1)), (64, (17, 19))])
def test_long_sums_keep_their_digits(channels: int, kernel: Pair, outputs: int, pixels: int) -> None:
    torch.manual_seed(0)
    size = kernel[0], kernel[1] + pixels - 1
    image, weight = torch.rand(1, channels, *size), torch.rand(outputs, channels, *kernel)
    window = Window(in_size=size, out_size=(1, pixels), kernel=kernel)
    op = Conv(name="conv", inputs=("x",), output="y", window=window, groups=1, weight=weight, bias=torch.zeros(outputs))
    exact = functional.conv2d(image.double(), weight.double()).view(outputs, pixels).T
    rows = np.arange(pixels, dtype=np.int32)
    for kernels, call in native_calls(op, [MapBuffer(pixels=image[0].flatten(1).T.contiguous(), size=size)], outputs):
        result = run_native(kernels, call, rows, rows, pixels, outputs)
        assert float(((result - exact) / exact).abs().max()) < 1e-6


@pytest.mark.parametrize("outputs", [16, 300])
@pytest.mark.parametrize("inputs", [90, 768])
def test_linear_layers_lose_no_more_digits_than_four_running_sums(inputs: int, outputs: int) -> None:
    rng = np.random.default_rng(0)
    image, weight = (rng.random(shape, dtype=np.float32) for shape in (inputs, (outputs, inputs)))
    sums = np.zeros((outputs, 4), np.float32)
    for i in range(0, inputs // 4 * 4, 4):
        sums += weight[:, i : i + 4] * image[i : i + 4]
    sums[:, : inputs % 4] += weight[:, inputs // 4 * 4 :] * image[inputs // 4 * 4 :]
    exact = weight.astype(np.float64) @ image.astype(np.float64)
    window = Window(in_size=(1, 1), out_size=(1, 1), kernel=(1, 1))
    op = Conv(
        name="linear", inputs=("x",), output="y", window=window, groups=1, bias=torch.zeros(outputs),
        weight=torch.from_numpy(weight)[:, :, None, None],
    )  # fmt: skip
    row = np.zeros(1, np.int32)
    for kernels, call in native_calls(op, [MapBuffer(pixels=torch.from_numpy(image)[None], size=(1, 1))], outputs):
        result = run_native(kernels, call, row, row, 1, outputs).numpy()[0]
        assert np.square(result - exact).mean() <= np.square(sums.sum(1, dtype=np.float32) - exact).mean()


@pytest.mark.parametrize("outputs", [3, 40])
@pytest.mark.parametrize("channels", [60, 100, 230])
def test_the_bits_of_a_pixel_do_not_depend_on_which_others_are_computed(channels: int, outputs: int) -> None:
    size = (9, 17)
    torch.manual_seed(0)
    window = Window(in_size=size, out_size=size, kernel=(3, 3), padding=(1, 1))
    op = Conv(
        name="conv", inputs=("x",), output="y", window=window, groups=1, bias=torch.randn(outputs),
        weight=torch.randn(outputs, channels, 3, 3),
    )  # fmt: skip
    pixels = np.arange(size[0] * size[1], dtype=np.int32)
    for kernels, call in native_calls(op, [MapBuffer(pixels=torch.randn(len(pixels), channels), size=size)], outputs):
        whole = run_native(kernels, call, pixels, pixels, len(pixels), outputs)
        for some in (pixels[::2], pixels[3::7], pixels[:1], pixels[20:29]):
            rows = np.ascontiguousarray(some)
            alone = run_native(kernels, call, rows, rows, len(pixels), outputs)
            assert torch.equal(alone[rows.tolist()], whole[rows.tolist()])


@given(
    window=windows(largest=7),
    channels=CHANNELS,
    activation=ACTIVATIONS,
    residual=st.sampled_from(["none", "first", "last"]),
    seed=SEEDS,
)
def test_depthwise_convolution(
    window: Window, channels: int, activation: Activation | str, residual: str, seed: int
) -> None:
    _check_convolution(window, channels, 1, 1, activation, residual, seed)


def test_linear_layer() -> None:
    """A linear layer is a convolution whose kernel covers the whole map."""
    window = Window(in_size=(5, 4), out_size=(1, 1), kernel=(5, 4))
    _check_convolution(window, 1, 7, 30, LINEAR, "none", 0)


@given(window=windows(largest=4), channels=CHANNELS, seed=SEEDS)
def test_maximum(window: Window, channels: int, seed: int) -> None:
    source = filled(window.in_size, channels, seed)
    padded = with_border(source.image, window, float("-inf"))
    expected = functional.max_pool2d(padded, window.kernel, window.stride, 0, window.dilation)
    expected = expected[:, :, : window.out_size[0], : window.out_size[1]]
    op = Pool(name="pool", inputs=("x",), output="y", window=window)
    check(op, [source], expected, seed=seed, error=0.0)


@given(
    size=st.tuples(st.integers(5, 20), st.integers(5, 20)),
    kernel=st.tuples(st.integers(2, 4), st.integers(2, 5)),
    stride=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    padding=st.tuples(st.integers(0, 1), st.integers(0, 1)),
    ceil_mode=st.booleans(),
    count_padding=st.booleans(),
    channels=CHANNELS,
    seed=SEEDS,
)
def test_average(
    size: Pair,
    kernel: Pair,
    stride: Pair,
    padding: Pair,
    ceil_mode: bool,
    count_padding: bool,
    channels: int,
    seed: int,
) -> None:
    source = filled(size, channels, seed)
    expected = functional.avg_pool2d(source.image, kernel, stride, padding, ceil_mode, count_padding)
    out = (expected.shape[2], expected.shape[3])
    window = Window(in_size=size, out_size=out, kernel=kernel, stride=stride, padding=padding)
    op = Pool(name="pool", inputs=("x",), output="y", window=window, average=True, count_padding=count_padding)
    check(op, [source], expected, seed=seed)
