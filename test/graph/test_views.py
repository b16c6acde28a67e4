# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Tests of which views of feature maps become operators, and of what kind."""

from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from networks.lowered import assert_same_function, graph_of
from networks.random_blocks import Call
from torch import Tensor, nn
from torch.nn import functional

from cacheinf_ros.graph.ir import Concat, Conv, Global, PixelShuffle, Pointwise, Resample, Select, TensorSpec
from cacheinf_ros.graph.lowering.index_patterns import as_parts, as_selection, as_shuffle
from cacheinf_ros.graph.lowering.view import Layout, View

SIZE = (12, 18)
CHANNELS = 12


def operators(view: Callable[[Tensor], Tensor]) -> list[str]:
    """Return the types of the local operators between a convolution and a function of a view of its output."""
    module = Call(lambda x, c: torch.exp(view(c(x))), nn.Conv2d(3, CHANNELS, 1, groups=3)).eval()
    graph = graph_of(module, SIZE)
    assert_same_function(graph, module, SIZE)
    return [type(o).__name__ for o in graph.operators if not isinstance(o, (Conv, Pointwise, Global))]


def shuffled(x: Tensor) -> Tensor:
    return x.view(1, 3, 4, *SIZE).transpose(1, 2).reshape(x.shape)


def detected(x: Tensor) -> Tensor:
    """Return the second half of shuffled channels, as FastestDet's ONNX file takes it."""
    return x.reshape(1 * CHANNELS // 2, 2, -1).permute(1, 0, 2).reshape(2, -1, CHANNELS // 2, *SIZE)[1]


@pytest.mark.parametrize(
    ("view", "expected"),
    [
        (lambda x: x.permute(0, 2, 3, 1), []),
        (lambda x: x.flatten(1), []),
        (lambda x: x.flatten(2).transpose(1, 2).view(1, *SIZE, CHANNELS).permute(0, 3, 1, 2), []),
        (lambda x: x.transpose(2, 3), []),
        (shuffled, ["Select"]),
        (lambda x: shuffled(x)[:, :5], ["Select"]),
        (detected, ["Select"]),
        (lambda x: functional.channel_shuffle(x, 4).chunk(2, 1)[1], ["Select"]),
        (lambda x: x[:, 2:9:3], ["Select"]),
        (lambda x: x[:, [3, 1, 1]], ["Select"]),
        (lambda x: x.index_select(1, torch.tensor([4, 0])), ["Select"]),
        (lambda x: x.unbind(1)[3][:, None], ["Select"]),
        (lambda x: x.narrow(1, 2, 3), ["Select"]),
        (lambda x: x.split([5, 7], 1)[1], ["Select"]),
        (lambda x: x.tensor_split(5, 1)[4], ["Select"]),
        (lambda x: x[:, :, 1:-1, ::2], ["Resample"]),
        (lambda x: x[..., 3:4, 2:3].expand(1, CHANNELS, 2, 3), ["Resample"]),
        (lambda x: functional.pixel_shuffle(x, 2)[:, :, 1:], ["PixelShuffle", "Resample"]),
        (lambda x: shuffled(x)[:, ::2, ::3], ["Select", "Resample"]),
        (lambda x: functional.pixel_unshuffle(x[:, :4, 2:], 2)[:, 1:9], ["Select", "Resample", "Concat"]),
    ],
)  # fmt: skip
def test_a_view_is_as_little_as_possible(view: Callable[[Tensor], Tensor], expected: list[str]) -> None:
    assert set(operators(view)) == set(expected)


def test_slices_of_pixels_as_channels() -> None:
    """YOLOv5's first layer does this; there a convolution of two groups, which does not take them in, reads them."""
    module = Call(
        lambda x, c: c(torch.cat([x[..., ::2, ::2], x[..., 1::2, ::2], x[..., ::2, 1::2], x[..., 1::2, 1::2]], 1)),
        nn.Conv2d(12, 4, 3, padding=1, groups=2),
    ).eval()
    graph = graph_of(module, SIZE)
    assert_same_function(graph, module, SIZE)
    assert [type(o) for o in graph.operators] == [Resample] * 4 + [Concat, Conv]


def test_shuffles_of_concatenated_channels_are_one_selection() -> None:
    def unit(x: Tensor, a: nn.Module, b: nn.Module) -> Tensor:
        halves = functional.channel_shuffle(torch.cat([a(x), b(x)], 1), 2).chunk(2, 1)
        return torch.cat([halves[0] * 2, functional.silu(halves[1])], 1)

    module = Call(unit, nn.Conv2d(3, 6, 1), nn.Conv2d(3, 6, 1)).eval()
    graph = graph_of(module, SIZE)
    assert_same_function(graph, module, SIZE)
    assert sum(isinstance(o, Select) for o in graph.operators) == 2


def test_another_order_of_channels_moves_into_the_next_convolution() -> None:
    module = Call(lambda x, a, b: b(shuffled(a(x))), nn.Conv2d(3, 12, 1, groups=3), nn.Conv2d(12, 5, 3)).eval()
    graph = graph_of(module, SIZE)
    assert_same_function(graph, module, SIZE)
    assert [type(o) for o in graph.operators] == [Conv, Conv]


def test_a_view_that_nothing_local_makes_is_one_global_operator() -> None:
    module = Call(lambda x: x.view(1, 3, 2, 6, 18).permute(0, 2, 4, 1, 3).reshape(1, -1, 3))
    graph = graph_of(module, SIZE)
    assert_same_function(graph, module, SIZE)
    (only,) = graph.operators
    assert isinstance(only, Global) and only.known and graph.unknown == ()


def test_global_operators_in_a_row_are_one() -> None:
    def heads(x: Tensor, a: nn.Module, b: nn.Module) -> Tensor:
        flat = [v.permute(0, 2, 3, 1).reshape(1, -1, 2) for v in (a(x), b(x))]
        return torch.cat(flat, 1).softmax(2)

    module = Call(heads, nn.Conv2d(3, 4, 3), nn.Conv2d(3, 4, 3, 2)).eval()
    graph = graph_of(module, SIZE)
    assert_same_function(graph, module, SIZE)
    assert [type(o) for o in graph.operators] == [Conv, Conv, Global]


channel_lists = st.lists(st.integers(0, 5), min_size=1, max_size=8)


@given(
    channels=channel_lists,
    rows=st.lists(st.integers(0, 3), min_size=1),
    columns=st.lists(st.integers(0, 4), min_size=1),
)
def test_selections_are_recognised(channels: list[int], rows: list[int], columns: list[int]) -> None:
    index = torch.arange(6 * 4 * 5).view(6, 4, 5)[channels][:, rows][:, :, columns]
    selection = as_selection(index, (4, 5))
    assert selection is not None
    assert (selection.channels.tolist(), selection.rows.tolist(), selection.columns.tolist()) == (
        channels,
        rows,
        columns,
    )


@given(factor=st.integers(2, 4), phase_major=st.booleans(), count=st.integers(1, 3))
def test_pixel_shuffles_are_recognised(factor: int, phase_major: bool, count: int) -> None:
    index = torch.arange(count * factor**2 * 6).view(1, count * factor**2, 2, 3)
    if phase_major:
        index = index.view(factor**2, count, 2, 3).transpose(0, 1).reshape(index.shape)
    shuffle = as_shuffle(functional.pixel_shuffle(index, factor)[0], (2, 3))
    assert shuffle is not None and shuffle.factor == factor
    assert torch.equal(shuffle.selection.channels, torch.arange(count * factor**2))
    if count > 1:
        assert shuffle.phase_major == phase_major


@given(factor=st.integers(2, 3))
def test_pixel_unshuffles_are_recognised(factor: int) -> None:
    size = (2 * factor, 3 * factor)
    index = torch.arange(2 * size[0] * size[1]).view(1, 2, *size)
    parts = as_parts(functional.pixel_unshuffle(index, factor)[0], size)
    assert parts is not None and len(parts) == factor**2
    assert sorted(torch.cat([part.positions for part in parts]).tolist()) == list(range(2 * factor**2))


@given(order=st.permutations(range(24)))
@settings(max_examples=20)
def test_other_orders_are_not(order: list[int]) -> None:
    index = torch.tensor(order).view(2, 3, 4)
    if order != list(range(24)):
        selection = as_selection(index, (3, 4))
        assert (
            selection is None
            or not torch.equal(selection.channels, torch.arange(2))
            or not selection.keeps_pixels((3, 4))
        )


@given(data=st.data())
def test_a_layout_and_back(data: st.DataObject) -> None:
    shape = data.draw(st.sampled_from([(1, 6, 4, 5), (1, 4, 5, 6), (1, 20, 6), (1, 120), (4, 5, 6), (2, 3, 4, 5)]))
    dim = data.draw(st.integers(0, len(shape) - 1))
    view = View.of(TensorSpec(name="x", shape=(1, 6, 4, 5))).reshaped(shape)
    layout = Layout.of(view, dim)
    as_map = layout.to_map(view)
    assert as_map.shape[:2] == (1, shape[dim])
    assert torch.equal(layout.from_map(as_map).index(), view.index())


def test_shuffle_of_whole_network() -> None:
    module = Call(lambda x, c: functional.pixel_shuffle(c(x), 3), nn.Conv2d(3, 18, 1)).eval()
    assert [type(o) for o in graph_of(module, SIZE).operators] == [Conv, PixelShuffle]
