"""Compiled kernels == reference kernels == torch, for random windows and random sets of rows."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional

from cacheinf_ros.engine.active import ActiveSet
from cacheinf_ros.engine.buffers import MapBuffer
from cacheinf_ros.engine.kernels import ReferenceKernels, choose_kernels
from cacheinf_ros.engine.kernels.library import kernel_library
from cacheinf_ros.errors import EngineError
from cacheinf_ros.graph.ir import UNBOUNDED, Conv, Pool
from cacheinf_ros.graph.window import Window

CPU = torch.device("cpu")
KERNELS = [ReferenceKernels(CPU)]
if kernel_library() is not None:
    KERNELS += [choose_kernels("cpu", 1), choose_kernels("cpu", 3)]


def test_compiled_kernels_are_built() -> None:
    assert kernel_library() is not None, "run `make build`: it compiles the kernels"


@st.composite
def windows(draw: st.DrawFn) -> Window:
    size = draw(st.tuples(st.integers(5, 20), st.integers(5, 20)))
    kernel = draw(st.tuples(st.integers(1, 5), st.integers(1, 5)))
    stride = draw(st.tuples(st.integers(1, 3), st.integers(1, 3)))
    dilation = draw(st.tuples(st.integers(1, 2), st.integers(1, 2)))
    padding = tuple(draw(st.integers(0, k // 2)) for k in kernel)
    out = tuple(
        (n + 2 * p - d * (k - 1) - 1) // s + 1
        for n, k, s, d, p in zip(size, kernel, stride, dilation, padding, strict=True)
    )
    if min(out) < 1:
        return Window(in_size=size, out_size=size, kernel=(1, 1))
    return Window(in_size=size, out_size=out, kernel=kernel, stride=stride, dilation=dilation, padding=padding)


def _active(size: tuple[int, int], share: float, seed: int) -> ActiveSet:
    active = ActiveSet(size)
    active.mask[:] = np.random.default_rng(seed).random(size) < share
    active.use_mask()
    return active


def _filled(size: tuple[int, int], channels: int, spare: int = 0) -> MapBuffer:
    whole = MapBuffer.allocate(size, channels + spare, CPU)
    whole.rows.normal_()
    return whole.channels(spare, channels)


shares = st.sampled_from([0.02, 0.3, 1.0])


@settings(deadline=None, max_examples=150)
@given(
    window=windows(),
    groups=st.sampled_from([1, 1, 1, 2, 5]),
    inputs=st.sampled_from([1, 3, 8, 16, 32]),
    outputs=st.sampled_from([1, 4, 16, 17, 33, 64]),
    residual=st.booleans(),
    clamp=st.sampled_from([UNBOUNDED, (0.0, float("inf")), (-0.5, 0.5)]),
    share=shares,
    seed=st.integers(0, 1000),
)
def test_convolution(
    window: Window,
    groups: int,
    inputs: int,
    outputs: int,
    residual: bool,
    clamp: tuple[float, float],
    share: float,
    seed: int,
) -> None:
    torch.manual_seed(seed)
    op = Conv(
        name="conv", inputs=("x",), output="y", weight=torch.randn(groups * outputs, inputs, *window.kernel),
        bias=torch.randn(groups * outputs), window=window, groups=groups, clamp=clamp,
    )  # fmt: skip
    source = _filled(window.in_size, groups * inputs, spare=3)
    added = _filled(window.out_size, groups * outputs) if residual else None
    active = _active(window.out_size, share, seed)
    expected = functional.conv2d(
        source.image, op.weight, op.bias, window.stride, window.padding, window.dilation, groups
    )
    expected = (expected + (added.image if added else 0)).clamp(*clamp)[0].flatten(1).t()
    for kernels in KERNELS:
        target = _filled(window.out_size, groups * outputs, spare=5)
        before = target.rows.clone()
        kernels.conv(op, source, target, added)(active)
        rows = torch.from_numpy(active.rows).long()
        assert torch.allclose(target.rows[rows], expected[rows], atol=2e-4, rtol=1e-4), kernels.name
        others = torch.ones(len(before), dtype=torch.bool)
        others[rows] = False
        assert torch.equal(target.rows[others], before[others]), "a row that is not active was written"


@settings(deadline=None)
@given(window=windows(), channels=st.sampled_from([1, 16, 19]), seed=st.integers(0, 1000), share=shares)
def test_depthwise_convolution(window: Window, channels: int, seed: int, share: float) -> None:
    torch.manual_seed(seed)
    op = Conv(
        name="conv", inputs=("x",), output="y", weight=torch.randn(channels, 1, *window.kernel),
        bias=torch.randn(channels), window=window, groups=channels,
    )  # fmt: skip
    source, active = _filled(window.in_size, channels), _active(window.out_size, share, seed)
    expected = functional.conv2d(
        source.image, op.weight, op.bias, window.stride, window.padding, window.dilation, channels
    )
    for kernels in KERNELS:
        target = _filled(window.out_size, channels)
        kernels.conv(op, source, target, None)(active)
        rows = torch.from_numpy(active.rows).long()
        assert torch.allclose(target.rows[rows], expected[0].flatten(1).t()[rows], atol=1e-4), kernels.name


@settings(deadline=None)
@given(
    size=st.tuples(st.integers(5, 20), st.integers(5, 20)),
    kernel=st.integers(2, 4),
    stride=st.integers(1, 3),
    padding=st.integers(0, 2),
    ceil_mode=st.booleans(),
    average=st.booleans(),
    count_padding=st.booleans(),
    share=shares,
)
def test_pooling(
    size: tuple[int, int],
    kernel: int,
    stride: int,
    padding: int,
    ceil_mode: bool,
    average: bool,
    count_padding: bool,
    share: float,
) -> None:
    padding = min(padding, kernel // 2)
    source = _filled(size, 9, spare=2)
    if average:
        expected = functional.avg_pool2d(source.image, kernel, stride, padding, ceil_mode, count_padding)
    else:
        expected = functional.max_pool2d(source.image, kernel, stride, padding, 1, ceil_mode)
    window = Window(
        in_size=size, out_size=tuple(expected.shape[2:]), kernel=(kernel,) * 2, stride=(stride,) * 2,
        padding=(padding,) * 2,
    )  # fmt: skip
    op = Pool(name="pool", inputs=("x",), output="y", window=window, average=average, count_padding=count_padding)
    active = _active(window.out_size, share, 0)
    for kernels in KERNELS:
        target = _filled(window.out_size, 9)
        kernels.pool(op, source, target)(active)
        rows = torch.from_numpy(active.rows).long()
        assert torch.allclose(target.rows[rows], expected[0].flatten(1).t()[rows], atol=1e-5), kernels.name


@settings(deadline=None)
@given(window=windows(), share=st.sampled_from([0.0, 0.01, 0.2, 1.0]), seed=st.integers(0, 1000))
def test_growth_is_dependence(window: Window, share: float, seed: int) -> None:
    """An output is active exactly when an active input lies under its window."""
    source = _active(window.in_size, share, seed)
    mask = torch.from_numpy(source.mask).float()[None, None]
    ones = torch.ones(1, 1, *window.kernel)
    touched = functional.conv2d(mask, ones, None, window.stride, window.padding, window.dilation)[0, 0] > 0.5
    for kernels in KERNELS:
        target = ActiveSet(window.out_size)
        kernels.grow(window)(source, target, False)
        assert np.array_equal(target.mask.astype(bool), touched.numpy())
        assert np.array_equal(target.rows, np.flatnonzero(touched.numpy().ravel()))
        assert target.count == len(target.rows)


def test_unknown_device_is_named() -> None:
    with pytest.raises(EngineError, match="device 'warp9' cannot be used"):
        choose_kernels("warp9", 1)
