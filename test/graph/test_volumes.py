# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Networks with depth: maps of channels times slices, of which a pixel is computed on its own."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from networks.lowered import assert_same_function, graph_of, values
from oracle import assert_sequence_equals_dense
from torch import Tensor, nn
from torch.nn import functional

from cacheinf_ros.graph import Model, ModelCard
from cacheinf_ros.graph.interpret import DenseGraph
from cacheinf_ros.graph.ir import Conv, Global, Graph, Select

SIZE = (7, 9)
channels = st.sampled_from([1, 2, 4])


class Volume(nn.Module):
    """Makes a volume of a picture, [1, channels, depth, height, width], and doubles what a function makes of it."""

    def __init__(self, channels: int, depth: int, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, channels * depth, 1)
        self.function = function
        self._channels = channels

    def forward(self, image: Tensor) -> Tensor:
        volume = self.first(image).unflatten(1, (self._channels, -1))
        return self.function(volume).flatten(1, 2) * 2


class Joined(nn.Module):
    """Concatenates what arithmetic makes of a volume and its convolution, along channels or depth."""

    def __init__(self, channels: int, dim: int) -> None:
        super().__init__()
        self.convolution, self.norm = nn.Conv3d(channels, channels, 3, padding=1), nn.BatchNorm3d(channels)
        nn.init.uniform_(self.norm.weight)
        nn.init.uniform_(self.norm.bias)
        self._dim = dim

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm(self.convolution(x)).relu()
        return torch.cat([x + y, x * y.sigmoid(), x], self._dim)


def checked(channels: int, depth: int, function: Callable[[Tensor], Tensor]) -> Graph:
    """Check that a function of volumes is local, and computed as torch does."""
    module = Volume(channels, depth, function).eval()
    try:
        with torch.no_grad():
            result = module(torch.zeros(1, 3, *SIZE))
        assume(result.numel() > 0 and bool(result.isfinite().all()))  # a window may have nothing but padding
    except RuntimeError:  # a window is larger than the volume
        assume(False)
    graph = graph_of(module, SIZE)
    assert_same_function(graph, module, SIZE)
    assert not [operator.name for operator in graph.operators if isinstance(operator, Global)]
    return graph


def triples(smallest: int, largest: int) -> st.SearchStrategy[tuple[int, ...]]:
    return st.tuples(*[st.integers(smallest, largest)] * 3)


depths = st.integers(1, 6)


@settings(max_examples=6)
@given(
    channels=channels, depth=depths, kernel=triples(1, 4), stride=triples(1, 3), dilation=triples(1, 2), data=st.data()
)
def test_convolution(
    channels: int, depth: int, kernel: Any, stride: tuple[int, ...], dilation: Any, data: st.DataObject
) -> None:
    padding = data.draw(st.one_of(triples(0, 3), st.just("same" if set(stride) == {1} else "valid")))
    groups = data.draw(st.sampled_from([1, channels]))
    checked(
        channels, depth, nn.Conv3d(channels, 4, kernel, stride, padding, dilation, groups, data.draw(st.booleans()))
    )


@settings(max_examples=6)
@given(
    channels=channels, depth=depths, kernel=triples(1, 4), stride=triples(1, 3), dilation=triples(1, 2), data=st.data()
)
def test_transposed_convolution(
    channels: int, depth: int, kernel: Any, stride: Any, dilation: Any, data: st.DataObject
) -> None:
    padding: Any = tuple(data.draw(st.integers(0, d * (k - 1))) for d, k in zip(dilation, kernel, strict=True))
    extra: Any = tuple(data.draw(st.integers(0, max(s, d) - 1)) for s, d in zip(stride, dilation, strict=True))
    groups = data.draw(st.sampled_from([1, channels]))
    checked(
        channels, depth, nn.ConvTranspose3d(channels, 4, kernel, stride, padding, extra, groups, dilation=dilation)
    )  # fmt: skip


@settings(max_examples=6)
@given(channels=channels, depth=depths, kernel=triples(1, 3), stride=triples(1, 3), ceil=st.booleans(), data=st.data())
def test_pooling(channels: int, depth: int, kernel: Any, stride: Any, ceil: bool, data: st.DataObject) -> None:
    padding: Any = tuple(data.draw(st.integers(0, k // 2)) for k in kernel)
    counts = data.draw(st.booleans())
    checked(channels, depth, nn.AvgPool3d(kernel, stride, padding, ceil, counts))
    checked(channels, depth, nn.MaxPool3d(kernel, stride, padding, data.draw(st.integers(1, 2)), ceil_mode=ceil))


@settings(max_examples=4)
@given(
    channels=channels, depth=depths, size=triples(1, 12), corners=st.booleans(),
    mode=st.sampled_from(["nearest", "nearest-exact", "trilinear"]),
)  # fmt: skip
def test_resizing(channels: int, depth: int, size: Any, corners: bool, mode: str) -> None:
    options = {"align_corners": corners} if mode == "trilinear" else {}
    checked(channels, depth, lambda x: functional.interpolate(x, size, mode=mode, **options))
    checked(channels, depth, lambda x: functional.interpolate(x, scale_factor=2, mode=mode, **options))


@settings(max_examples=4)
@given(
    channels=channels,
    depth=depths,
    amounts=st.lists(st.integers(-1, 2), min_size=6, max_size=6),
    value=st.floats(-2, 2),
)
def test_padding(channels: int, depth: int, amounts: list[int], value: float) -> None:
    checked(channels, depth, lambda x: functional.pad(x, amounts, "constant", value))
    checked(channels, depth, lambda x: functional.pad(x, [*map(abs, amounts[:4]), 0, 0], "replicate"))


@settings(max_examples=4)
@given(channels=channels, depth=depths, dim=st.sampled_from([1, 2, -3, -4]))
def test_concatenation_and_arithmetic(channels: int, depth: int, dim: int) -> None:
    checked(channels, depth, Joined(channels, dim))


def test_cached_execution_equals_dense() -> None:
    module = Volume(2, 5, nn.Sequential(Joined(2, 2), nn.Conv3d(2, 3, 3, (2, 1, 1), 1), nn.MaxPool3d((2, 1, 1)))).eval()
    size = (64, 80)
    model = Model(module=module, graph=graph_of(module, size), card=ModelCard(name="volume", input_size=size))
    assert_sequence_equals_dense(model)


def test_nothing_is_computed_twice() -> None:
    """A convolution takes as many multiplications as in torch, and one selection; what follows adds none."""
    graph = checked(4, 8, nn.Sequential(nn.Conv3d(4, 6, 3, padding=1), nn.ReLU(), nn.Conv3d(6, 6, 3, padding=1)))
    convolutions = [operator for operator in graph.operators if isinstance(operator, Conv)]
    assert [each.flops_per_pixel for each in convolutions[1:]] == [2 * 8 * 6 * 4 * 27, 2 * 8 * 6 * 6 * 27]
    assert len([operator for operator in graph.operators if isinstance(operator, Select)]) <= 3


@pytest.mark.parametrize("function", [lambda x: x.softmax(1), lambda x: x.mean((2, 3, 4), keepdim=True)])
def test_the_rest_is_completed(function: Callable[[Tensor], Tensor]) -> None:
    module = Volume(2, 3, function).eval()
    graph = graph_of(module, SIZE)
    assert_same_function(graph, module, SIZE)
    assert any(isinstance(operator, Global) for operator in graph.operators)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x[:, :, 1:].relu(),
        lambda x: x[:, :1].relu(),
        lambda x: x[:, :, 1:] * torch.arange(2.0).view(1, 1, 2, 1, 1),
        lambda x: x[:, :, 1:] - x[:, :, :-1],
        lambda x: x * x.flip(2),
    ],
)
def test_slices_are_local(function: Callable[[Tensor], Tensor]) -> None:
    checked(2, 3, function)


def test_a_window_of_padding_alone_has_no_largest_slice() -> None:
    module = Volume(1, 1, nn.MaxPool3d((2, 1, 1), 1, (1, 0, 0), 2)).eval()
    image = torch.zeros(1, 3, *SIZE)
    assert torch.equal(DenseGraph(graph_of(module, SIZE))(image)["output"], module(image))


def test_resizing_reads_no_slice_that_torch_does_not() -> None:
    """Of 5 slices the last is infinite; of 9 with the corners aligned, only the last three depend on it."""

    def function(x: Tensor) -> Tensor:
        last = torch.zeros(5)
        last[4] = torch.inf
        return functional.interpolate(x + last.view(1, 1, 5, 1, 1), (9, *SIZE), mode="trilinear", align_corners=True)

    module = Volume(1, 5, function).eval()
    ours = DenseGraph(graph_of(module, SIZE))(torch.zeros(1, 3, *SIZE))
    assert [bool(torch.isfinite(each).all()) for each in values(ours)[0][0]] == [True] * 7 + [False] * 2
