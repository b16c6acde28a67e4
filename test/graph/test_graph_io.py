# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""A graph read back from bytes is the same graph, bit for bit, and bytes that are no graph are refused."""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from pathlib import Path

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from networks.random_models import random_model
from safetensors.torch import save

from cacheinf_ros.errors import ModelError
from cacheinf_ros.graph import load_model
from cacheinf_ros.graph.graph_io import decode_graph, encode_graph
from cacheinf_ros.graph.identity import graph_hash
from cacheinf_ros.graph.interpret import DeferredGraph, DenseGraph
from cacheinf_ros.graph.ir import Elementwise, Graph, Pointwise, TensorRef, TensorSpec
from cacheinf_ros.graph.weights import weight_bytes

NETWORKS = Path(__file__).parents[1] / "networks"


def decoded(content: bytes) -> Graph:
    return decode_graph(memoryview(bytearray(content)))


def assert_same(graph: Graph, other: Graph, image: torch.Tensor) -> None:
    assert graph_hash(other) == graph_hash(graph)
    assert weight_bytes(other) == weight_bytes(graph)
    ours, theirs = DenseGraph(graph)(image), DeferredGraph(other)(image)
    assert list(ours) == list(theirs)
    for name, value in ours.items():  # torch chooses kernels by the weights' memory layout
        torch.testing.assert_close(theirs[name], value, equal_nan=True)


@settings(max_examples=12)
@given(seed=st.integers(0, 10**6))
def test_a_graph_is_read_as_it_was_written(seed: int) -> None:
    graph = random_model(seed).graph
    try:
        content = encode_graph(graph)
    except ModelError as error:
        assert "functools.partial" in str(error) or "<function" in str(error)  # calls that are no operators of ATen
        assume(False)
    assert_same(graph, decoded(content), torch.randn(graph.tensors[graph.input].shape))


@pytest.mark.parametrize(
    "reference",
    ["scenenet", "torchvision:shufflenet_v2_x0_5", f"{NETWORKS / 'espnet.yaml'}", f"{NETWORKS / 'pose.yaml'}"],
)
def test_real_networks(reference: str) -> None:
    model = load_model(reference)
    assert_same(model.graph, decoded(encode_graph(model.graph)), torch.rand(1, 3, *model.input_size))


def test_weights_that_several_operators_have_are_stored_once() -> None:
    scale = torch.rand(3)
    names = ("image", "once", "twice")
    graph = Graph(
        input="image",
        outputs=(("output", "twice"),),
        operators=tuple(
            Elementwise(name=made, inputs=(read,), output=made, scale=scale) for read, made in pairwise(names)
        ),
        tensors={name: TensorSpec(name=name, shape=(1, 3, 4, 5)) for name in names},
    )
    first, second = decoded(encode_graph(graph)).operators
    assert isinstance(first, Elementwise) and isinstance(second, Elementwise)
    assert first.scale is second.scale


def test_calls_without_a_name_are_refused() -> None:
    shape = (1, 3, 4, 5)
    call = partial(torch.var, dim=1, keepdim=True)
    graph = Graph(
        input="image",
        outputs=(("output", "made"),),
        operators=(
            Pointwise(name="made", inputs=("image",), output="made", call=call, arguments=(TensorRef("image"),)),
        ),
        tensors={name: TensorSpec(name=name, shape=shape) for name in ("image", "made")},
    )
    with pytest.raises(ModelError, match=r"functools\.partial.* cannot be stored"):
        encode_graph(graph)


def test_what_is_no_graph_is_refused() -> None:
    whole = encode_graph(load_model(f"{NETWORKS / 'tiny.py'}:tiny").graph)
    swaps = [
        (b'"class":"Conv"', b'"class":"Cone"'), (b'"class":"Conv"', b'"class":"Pool"'), (b'"format":1', b'"format":9'),
        (b'"tensor":0}', b'"tensor":9}'), (b'"inputs"', b'"output"'),
    ]  # fmt: skip
    for old, new in swaps:
        escaped, made = (text.replace(b'"', b'\\"') for text in (old, new))
        assert escaped in whole
        with pytest.raises(ModelError, match="it holds no graph"):
            decoded(whole.replace(escaped, made))
    for damaged in (b"", whole[:-1], whole[:100], b"x" * 100, b"\x02" + bytes(7) + b"[]"):
        with pytest.raises(ModelError, match="it holds no graph"):
            decoded(damaged)
    with pytest.raises(ModelError, match="no graph of this version"):
        decoded(save({"0": torch.zeros(1)}))


def test_what_operators_are_called_with_is_read_as_it_was_written() -> None:
    arguments = (TensorRef("image"), torch.empty(0, 3), torch.device("cpu"), torch.float16, [None, 1], {"alpha": 2.5})
    call = Pointwise(name="made", inputs=("image",), output="made", call=torch.ops.aten.add.Tensor, arguments=arguments)
    tensors = {name: TensorSpec(name=name, shape=(1, 3, 4, 5)) for name in ("image", "made")}
    graph = Graph(input="image", outputs=(("output", "made"),), operators=(call,), tensors=tensors)
    (read,) = decoded(encode_graph(graph)).operators
    assert isinstance(read, Pointwise) and read.call is call.call
    assert read.arguments[0] == arguments[0] and torch.equal(read.arguments[1], arguments[1])
    assert read.arguments[2:] == arguments[2:]


@pytest.mark.parametrize(
    "name",
    [
        *("from_file.default", "fbgemm_linear_fp16_weight.default", "set_.source_Tensor", "_embedding_bag.default"),
        *("max_pool2d_with_indices_backward.default", "empty.memory_format", "resize_.default", "relu_.default"),
    ],
)
def test_only_what_lowering_calls_is_called(name: str) -> None:
    """`aten.from_file` maps any file that the process may read, and other functions trust their arguments."""
    with pytest.raises(ModelError, match="that graphs call"):
        decoded(save({"0": torch.zeros(1)}, {"graph": f'{{"format":1,"graph":{{"aten":"{name}"}}}}'}))
    packet, _, overload = name.partition(".")
    call = getattr(getattr(torch.ops.aten, packet), overload)
    made = Pointwise(name="made", inputs=("image",), output="made", call=call, arguments=(TensorRef("image"),))
    tensors = {each: TensorSpec(name=each, shape=(1, 3, 4, 5)) for each in ("image", "made")}
    with pytest.raises(ModelError, match="cannot be stored"):
        encode_graph(Graph(input="image", outputs=(("output", "made"),), operators=(made,), tensors=tensors))


@pytest.mark.parametrize(
    "name", ['{"aten":"__class__.__init__"}', '{"torch":"load"}', '{"class":"Path","fields":{}}', '{"list":[]}']
)
def test_only_what_graphs_are_made_of_is_looked_up(name: str) -> None:
    with pytest.raises(ModelError, match="holds no graph"):
        decoded(save({"0": torch.zeros(1)}, {"graph": f'{{"format":1,"graph":{name}}}'}))
