# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""An inconsistent graph is refused before compiled kernels can read outside of its tensors."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

from cacheinf_ros.errors import ModelError
from cacheinf_ros.graph.activation import Activation, ActivationKind
from cacheinf_ros.graph.check import check_graph
from cacheinf_ros.graph.ir import (
    ChannelNorm,
    Combine,
    Concat,
    Conv,
    Elementwise,
    Global,
    GlobalMean,
    Graph,
    Levels,
    Operator,
    PixelShuffle,
    Pool,
    Resample,
    Select,
    TensorSpec,
    free_name,
)
from cacheinf_ros.graph.taps import AxisTaps
from cacheinf_ros.graph.window import Window

IMAGE = (1, 3, 6, 8)


def taps(size: int, out: int) -> AxisTaps:
    return AxisTaps(
        index=torch.arange(out, dtype=torch.int32).reshape(out, 1) % size, weight=torch.ones(out, 1), in_size=size
    )


def many_taps(size: int, out: int, count: int) -> AxisTaps:
    return AxisTaps(
        index=torch.zeros(out, count, dtype=torch.int32), weight=torch.ones(out, count), in_size=size
    )  # fmt: skip


def window(**changes: Any) -> Window:
    return replace(Window(in_size=(6, 8), out_size=(6, 8), kernel=(3, 3), padding=(1, 1)), **changes)


def named(kind: type[Operator], **fields: Any) -> Any:
    return kind(name="it", inputs=("image",), output="out", **fields)


CONV = named(Conv, weight=torch.ones(8, 3, 3, 3), bias=torch.ones(8), window=window(), groups=1)
SLOPED = Activation(kind=ActivationKind.PRELU, slope=torch.ones(3))
SOUND: dict[str, tuple[Any, tuple[int, ...]]] = {
    "conv": (CONV, (1, 8, 6, 8)),
    "pool": (named(Pool, window=window()), IMAGE),
    "elementwise": (named(Elementwise, scale=torch.ones(3), activation=SLOPED), IMAGE),
    "norm": (named(ChannelNorm, weight=torch.ones(3), bias=torch.ones(3), epsilon=0.1), IMAGE),
    "resample": (named(Resample, rows=taps(6, 12), columns=taps(8, 4)), (1, 3, 12, 4)),
    "shuffle": (named(PixelShuffle, factor=1), IMAGE),
    "select": (named(Select, channels=(2, 0)), (1, 2, 6, 8)),
    "mean": (named(GlobalMean), (1, 3)),
    "concat": (replace(named(Concat), inputs=("image", "image")), (1, 6, 6, 8)),
}
BAD: list[tuple[str, dict[str, Any]]] = [
    ("conv", {"bias": torch.ones(1)}),
    ("conv", {"bias": torch.ones(8, dtype=torch.float64)}),
    ("conv", {"weight": torch.ones(8, 4, 3, 3)}),
    ("conv", {"weight": torch.ones(9, 3, 3, 3)}),
    ("conv", {"weight": torch.ones(8, 3, 5, 5)}),
    ("conv", {"weight": torch.ones(8, 3, 3, 3, dtype=torch.float16)}),
    ("conv", {"groups": 0}),
    ("conv", {"groups": 3}),
    ("conv", {"window": window(in_size=(60, 80))}),
    ("conv", {"window": window(out_size=(60, 80))}),
    ("conv", {"window": window(stride=(0, 1))}),
    ("conv", {"window": window(dilation=(1, 2**31))}),
    ("conv", {"window": window(padding=(-(2**20), 0))}),
    ("conv", {"activation": SLOPED}),
    ("conv", {"inputs": ("image", "image")}),
    ("conv", {"inputs": ()}),
    ("conv", {"inputs": ("out",)}),
    ("conv", {"output": "image"}),
    ("conv", {"output": "elsewhere"}),
    ("pool", {"window": window(kernel=(0, 1))}),
    ("elementwise", {"scale": torch.ones(1)}),
    ("elementwise", {"activation": Activation(kind=ActivationKind.PRELU)}),
    ("elementwise", {"inputs": ("image", "image")}),
    ("conv", {"bias": None}),
    ("norm", {"weight": torch.ones(2)}),
    ("norm", {"weight": None}),
    ("norm", {"bias": None}),
    ("norm", {"bias": 1.0}),
    ("resample", {"rows": taps(6, 11)}),
    ("resample", {"rows": taps(7, 12)}),
    ("resample", {"rows": replace(taps(6, 12), in_size=7)}),
    ("resample", {"columns": replace(taps(8, 4), index=torch.full((4, 1), -2, dtype=torch.int32))}),
    ("resample", {"columns": replace(taps(8, 4), index=torch.full((4, 1), 8, dtype=torch.int32))}),
    ("resample", {"columns": replace(taps(8, 4), weight=torch.ones(4, 2))}),
    ("shuffle", {"factor": 2}),
    ("resample", {"rows": many_taps(6, 12, 2**16)}),
    ("resample", {"rows": many_taps(6, 12, 2**13), "columns": many_taps(8, 4, 2**13)}),
    ("pool", {"window": window(dilation=(1, 2**15 - 1), kernel=(1, 2**15 - 1))}),
    ("pool", {"window": window(stride=(1, 2**15 - 1), out_size=(6, 8), kernel=(3, 2**15 - 1), dilation=(1, 100))}),
    ("shuffle", {"factor": 0}),
    ("select", {"channels": (3, 0)}),
    ("select", {"channels": (-1, 0)}),
    ("select", {"channels": (0,)}),
    ("concat", {"inputs": ("image",)}),
]


def graph_with(operator: Operator, shape: tuple[int, ...]) -> Graph:
    shapes = {"image": IMAGE, "out": shape}
    return Graph(
        input="image",
        outputs=(("output", "out"),),
        operators=(operator,),
        tensors={name: TensorSpec(name=name, shape=shape) for name, shape in shapes.items()},
    )


@pytest.mark.parametrize("name", SOUND)
def test_a_sound_operator(name: str) -> None:
    check_graph(graph_with(*SOUND[name]))


@pytest.mark.parametrize(("name", "changes"), BAD)
def test_an_operator_that_does_not_fit_to_its_tensors(name: str, changes: dict[str, Any]) -> None:
    operator, shape = SOUND[name]
    with pytest.raises(ModelError, match="it holds no graph that can be run"):
        check_graph(graph_with(replace(operator, **changes), shape))


@pytest.mark.parametrize(
    "shape", [(1, 8, 6), (2, 8, 6, 8), (1, 8, 0, 8), (1, 8, -6, -8), (1, 2**40, 6, 8), (1, 8, 6, 9)]
)
def test_a_tensor_that_cannot_be(shape: tuple[int, ...]) -> None:
    with pytest.raises(ModelError, match="it holds no graph that can be run"):
        check_graph(graph_with(CONV, shape))


def test_padding_behind_the_image_may_be_any() -> None:
    """With F.pad before a convolution some windows lie wholly in the padding."""
    behind = window(in_size=(6, 848), out_size=(6, 432), stride=(1, 2))
    check_graph(
        replace(
            graph_with(replace(CONV, window=behind), (1, 8, 6, 432)),
            tensors={
                "image": TensorSpec(name="image", shape=(1, 3, 6, 848)),
                "out": TensorSpec(name="out", shape=(1, 8, 6, 432)),
            },
        )
    )


@pytest.mark.parametrize("scale", [0.0, -1.0, 1e-40, 1e-50, 1e39, float("inf"), float("nan")])
def test_levels_that_kernels_cannot_tell_from_floats(scale: float) -> None:
    """With a denormal scale, taken for 0, kernels once wrote four bytes for each level."""
    with pytest.raises(ModelError, match="quantise the model anew"):
        Levels(scale=scale, zero=0)
    with pytest.raises(ModelError, match="quantise the model anew"):
        Levels(scale=1.0, zero=256)
    assert Levels(scale=1.2e-38, zero=255).zero == 255


def test_names_that_are_made_are_in_no_graph() -> None:
    """A file may have named its tensors as the engine names its copies."""
    assert free_name("cat:3", {"cat", "x"}) == "cat:3"
    assert free_name("cat:3", {"cat:3"}, {"cat:3'"}) == "cat:3''"


@pytest.mark.parametrize("shape", [(1, 1, 6, 8), (1, 4, 6, 8), (1, 3), (1, 3, 6), (2, 3, 6, 8)])
def test_an_input_that_no_frame_can_be_written_to(shape: tuple[int, ...]) -> None:
    """Frames are written as three floats per pixel, whatever room the tensor has."""
    image = TensorSpec(name="image", shape=shape)
    graph = Graph(input="image", outputs=(("output", "image"),), operators=(), tensors={"image": image})
    with pytest.raises(ModelError, match=r"the input is no picture \[1, 3, height, width\]"):
        check_graph(graph)


@pytest.mark.parametrize("shape", [(2**32, 2**32), (1, 8, 2**31, 2**30), (2**64, 1, 1, 1), (0, 2**64)])
def test_sizes_whose_product_is_too_large_for_64_bits(shape: tuple[int, ...]) -> None:
    graph = graph_with(CONV, (1, 8, 6, 8))
    with pytest.raises(ModelError, match="tensor 'more'"):
        check_graph(replace(graph, tensors={**graph.tensors, "more": TensorSpec(name="more", shape=shape)}))


@pytest.mark.parametrize("call", [None, "aten.relu.default"])
def test_a_call_that_is_none(call: Any) -> None:
    with pytest.raises(ModelError, match="'it' does not fit"):
        check_graph(graph_with(named(Global, call=call, arguments=(), target=""), IMAGE))


def test_an_operator_that_no_kernel_computes() -> None:
    with pytest.raises(ModelError, match="'it' does not fit"):
        check_graph(graph_with(named(Operator), IMAGE))


def test_an_output_that_nobody_writes() -> None:
    graph = graph_with(*SOUND["conv"])
    with pytest.raises(ModelError, match="never written"):
        check_graph(replace(graph, outputs=(("output", "elsewhere"),)))


def test_a_pair_of_which_one_has_other_channels() -> None:
    operator = replace(named(Elementwise, combine=Combine.ADD), inputs=("image", "wide"))
    graph = graph_with(operator, IMAGE)
    wide = TensorSpec(name="wide", shape=(1, 4, 6, 8))
    source = replace(
        named(Conv, weight=torch.ones(4, 3, 3, 3), bias=torch.ones(4), window=window(), groups=1), output="wide"
    )
    with pytest.raises(ModelError, match="'it' does not fit"):
        check_graph(replace(graph, operators=(source, operator), tensors={**graph.tensors, "wide": wide}))
