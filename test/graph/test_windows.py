# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Tests of convolutions, pooling, resizing and padding with any parameters."""

from collections.abc import Sequence

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from networks.lowered import assert_same_function, graph_of
from networks.random_blocks import Call
from torch import Tensor, nn
from torch.nn import functional

from cacheinf_ros.graph.ir import Conv, Graph, PixelShuffle, Pool, Resample
from cacheinf_ros.graph.make_taps import averaging_taps, padding_of, reads_outside, same_taps

LOCAL = (Conv, PixelShuffle, Pool, Resample)
sizes = st.tuples(st.integers(5, 14), st.integers(5, 14))


def pairs(smallest: int, largest: int) -> st.SearchStrategy[tuple[int, int]]:
    return st.tuples(st.integers(smallest, largest), st.integers(smallest, largest))


def checked(module: nn.Module, size: tuple[int, int], kinds: tuple[type, ...] = LOCAL) -> Graph:
    module.eval()
    try:
        with torch.no_grad():
            assume(module(torch.zeros(1, 3, *size)).numel() > 0)
    except RuntimeError:  # the window is larger than the image
        assume(False)
    graph = graph_of(module, size)
    assert_same_function(graph, module, size)
    assert all(isinstance(operator, kinds) for operator in graph.operators)
    return graph


@settings(max_examples=15)
@given(size=sizes, kernel=pairs(1, 5), stride=pairs(1, 3), dilation=pairs(1, 3), data=st.data())
def test_convolution(size, kernel, stride, dilation, data) -> None:
    padding = data.draw(st.one_of(pairs(0, 5), st.just("same" if stride == (1, 1) else "valid")))
    groups = data.draw(st.sampled_from([1, 3]))
    graph = checked(nn.Conv2d(3, 6, kernel, stride, padding, dilation, groups), size)
    assert len(graph.operators) == 1


@settings(max_examples=15)
@given(
    size=sizes, kernel=pairs(1, 5), stride=pairs(1, 4), dilation=pairs(1, 3), groups=st.sampled_from([1, 3]),
    data=st.data(),
)  # fmt: skip
def test_transposed_convolution(size, kernel, stride, dilation, groups, data) -> None:
    stride = data.draw(st.sampled_from([stride, (stride[0], stride[0])]))
    padding = tuple(data.draw(st.integers(0, d * (k - 1) + 1)) for d, k in zip(dilation, kernel, strict=True))
    extra = tuple(data.draw(st.integers(0, max(s, d) - 1)) for s, d in zip(stride, dilation, strict=True))
    checked(nn.ConvTranspose2d(3, 6, kernel, stride, padding, extra, groups, dilation=dilation), size)


def test_doubling_transposed_convolution_wastes_nothing() -> None:
    graph = checked(nn.ConvTranspose2d(3, 5, 2, 2), (6, 7))
    conv, shuffle = graph.operators
    assert isinstance(conv, Conv) and tuple(conv.weight.shape) == (20, 3, 1, 1)
    assert isinstance(shuffle, PixelShuffle) and shuffle.phase_major


def test_what_follows_a_transposed_convolution_moves_into_it() -> None:
    norm = nn.BatchNorm2d(4)
    norm.running_mean.normal_()
    module = nn.Sequential(nn.ConvTranspose2d(3, 4, 3, 2, 1), norm, nn.PReLU(4))
    assert [type(o) for o in checked(module, (6, 7)).operators] == [Conv, PixelShuffle, Resample]


@settings(max_examples=15)
@given(size=sizes, kernel=pairs(1, 4), stride=pairs(1, 4), ceil=st.booleans(), data=st.data())
def test_pooling(size, kernel, stride, ceil, data) -> None:
    padding = tuple(data.draw(st.integers(0, k // 2)) for k in kernel)
    if data.draw(st.booleans()):
        checked(nn.MaxPool2d(kernel, stride, padding, data.draw(pairs(1, 2)), ceil_mode=ceil), size)
    else:
        checked(nn.AvgPool2d(kernel, stride, padding, ceil, data.draw(st.booleans())), size)


def test_another_divisor_is_a_scale() -> None:
    graph = graph_of(module := nn.AvgPool2d(3, 2, 1, divisor_override=4), (9, 11))
    assert_same_function(graph, module, (9, 11))
    assert [type(o).__name__ for o in graph.operators] == ["Pool", "Elementwise"]
    uneven = nn.AvgPool2d(3, 2, ceil_mode=True, divisor_override=4)
    assert_same_function(graph_of(uneven, (10, 12)), uneven, (10, 12))


@settings(max_examples=10)
@given(size=sizes, out=pairs(1, 16))
def test_adaptive_average(size, out) -> None:
    graph = graph_of(module := nn.AdaptiveAvgPool2d(out), size)
    assert_same_function(graph, module, size)
    assert {type(o).__name__ for o in graph.operators} <= {"GlobalMean", "Pool", "Resample"}


@pytest.mark.parametrize(("out", "kind"), [((3, 4), "Pool"), ((1, 1), "Pool"), ((5, 4), "Global")])
def test_adaptive_maximum(out: tuple[int, int], kind: str) -> None:
    graph = graph_of(module := nn.AdaptiveMaxPool2d(out), (12, 16))
    assert_same_function(graph, module, (12, 16))
    assert [type(o).__name__ for o in graph.operators] == [kind]
    assert graph.unknown == ()


MODES = [
    "nearest",
    "nearest-exact",
    "bilinear",
    "bilinear corners",
    "bilinear antialias",
    "bicubic",
    "bicubic corners",
    "area",
]


@settings(max_examples=20)
@given(size=sizes, out=pairs(1, 25), factor=st.sampled_from([None, 0.5, 1.7, 2.0, 3.0]), mode=st.sampled_from(MODES))
def test_resizing(size, out, factor, mode) -> None:
    name, _, option = mode.partition(" ")
    options = {"mode": name, "antialias": option == "antialias"}
    if name in ("bilinear", "bicubic"):
        options["align_corners"] = option == "corners"
    target = {"size": out} if factor is None else {"scale_factor": factor}
    module = Call(lambda x: functional.interpolate(x, **target, **options))
    # torch (2.13) itself repeats the first row there, where in two columns each has its own
    assume(option != "antialias" or module(torch.zeros(1, 3, *size)).shape[3] > 1)
    graph = graph_of(module, size)
    assert_same_function(graph, module, size)
    assert {type(o).__name__ for o in graph.operators} <= {"GlobalMean", "Pool", "Resample"}
    assert len(graph.operators) <= 1


def test_a_resized_pixel_is_the_second_operand_of_what_reads_it() -> None:
    def gated(x: Tensor) -> Tensor:
        return x * functional.interpolate(x.mean((2, 3), keepdim=True), (9, 11), mode="bilinear")

    graph = graph_of(Call(gated), (9, 11))
    assert [type(o).__name__ for o in graph.operators] == ["GlobalMean", "Elementwise"]


@settings(max_examples=15)
@given(
    size=sizes, amounts=st.lists(st.integers(-2, 4), min_size=4, max_size=4),
    mode=st.sampled_from(["constant", "reflect", "replicate", "circular"]),
)  # fmt: skip
def test_padding(size, amounts, mode) -> None:
    value = 0.5 if mode == "constant" else None
    amounts = amounts if mode == "constant" else [abs(n) for n in amounts]
    checked(Call(lambda x: functional.pad(x, amounts, mode, value)), size, (Resample,))


@pytest.mark.parametrize("amounts", [(1, 2, 3, 0), (0, 1, 0, 1), (2, 2, 2, 2, 0, 0, 0, 0)])
def test_padding_with_zeros_moves_into_every_convolution_that_reads_it(amounts: Sequence[int]) -> None:
    def function(x: Tensor, a: nn.Module, b: nn.Module) -> Tensor:
        padded = functional.pad(x, tuple(amounts))
        return a(padded) + b(padded)

    module = Call(function, nn.Conv2d(3, 4, 3, padding=1), nn.Conv2d(3, 4, 3, padding=1)).eval()
    graph = checked(module, (9, 11))
    assert [type(o) for o in graph.operators] == [Conv, Conv]


@pytest.mark.parametrize(
    ("pool", "value", "fits"),
    [
        (nn.MaxPool2d(3, 2), float("-inf"), True),
        (nn.MaxPool2d(3, 2), 0.0, False),
        (nn.AvgPool2d(3, 2), 0.0, True),
        (nn.AvgPool2d(3, 2, 1, count_include_pad=False), 0.0, False),
        (nn.AvgPool2d(3, 2, 1), 0.0, False),
    ],
)
def test_padding_moves_into_pooling_where_it_is_the_same(pool: nn.Module, value: float, fits: bool) -> None:
    module = Call(lambda x, p: p(functional.pad(x, (1, 1, 1, 1), value=value)), pool)
    graph = checked(module, (9, 11))
    assert [type(o) for o in graph.operators] == ([Pool] if fits else [Resample, Pool])


def test_uneven_padding_moves_into_a_maximum() -> None:
    graph = checked(
        Call(lambda x: functional.max_pool2d(functional.pad(x, (0, 3, 2, 1), value=float("-inf")), 3)), (9, 11)
    )
    assert [type(o) for o in graph.operators] == [Pool]


def test_taps() -> None:
    taps = averaging_taps(5, 3)
    assert taps.index.tolist() == [[0, 1, -1], [1, 2, 3], [3, 4, -1]]
    assert taps.weight.sum(1).tolist() == pytest.approx([1.0, 1.0, 1.0])
    assert not reads_outside(taps)
    assert padding_of(same_taps(4)) == (0, 0)
    assert padding_of(taps) is None
