# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Graphs in files: what is read back is the same graph, bit for bit, and what is no graph is refused."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from networks.lowered import graph_of
from networks.random_graphs import random_network
from safetensors.torch import save_file

from cacheinf_ros.errors import ModelError
from cacheinf_ros.graph import load_model
from cacheinf_ros.graph.graph_io import read_graph, write_graph
from cacheinf_ros.graph.identity import graph_hash
from cacheinf_ros.graph.interpret import DeferredGraph, DenseGraph
from cacheinf_ros.graph.ir import Conv, Elementwise, Graph, Pointwise, TensorRef, TensorSpec
from cacheinf_ros.graph.weights import weight_bytes

NETWORKS = Path(__file__).parents[1] / "networks"


def assert_same(graph: Graph, other: Graph, image: torch.Tensor) -> None:
    assert graph_hash(other) == graph_hash(graph)
    assert weight_bytes(other) == weight_bytes(graph)
    ours, theirs = DenseGraph(graph)(image), DeferredGraph(other)(image)
    assert list(ours) == list(theirs)
    for name, value in ours.items():  # torch's kernels go by where in memory weights lie
        torch.testing.assert_close(theirs[name], value, equal_nan=True)


@settings(max_examples=25)
@given(seed=st.integers(0, 10**6))
def test_a_graph_is_read_as_it_was_written(seed: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    network = random_network(seed)
    graph, path = graph_of(network, network.input_size), tmp_path_factory.mktemp("graph") / "graph.safetensors"
    try:
        write_graph(graph, path)
    except ModelError as error:
        assert "functools.partial" in str(error) or "<function" in str(error)  # calls that are no operators of ATen
        assert not list(path.parent.iterdir())
        assume(False)
    assert_same(graph, read_graph(path), torch.randn(1, 3, *network.input_size))
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize(
    "reference",
    ["scenenet", "torchvision:shufflenet_v2_x0_5", f"{NETWORKS / 'espnet.yaml'}", f"{NETWORKS / 'pose.yaml'}"],
)
def test_real_networks(reference: str, tmp_path: Path) -> None:
    model = load_model(reference)
    write_graph(model.graph, tmp_path / "new" / "graph.safetensors")
    assert_same(model.graph, read_graph(tmp_path / "new" / "graph.safetensors"), torch.rand(1, 3, *model.input_size))


def test_weights_that_several_operators_have_are_stored_once(tmp_path: Path) -> None:
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
    write_graph(graph, tmp_path / "graph")
    first, second = read_graph(tmp_path / "graph").operators
    assert isinstance(first, Elementwise) and isinstance(second, Elementwise)
    assert first.scale is second.scale


def test_calls_without_a_name_are_refused(tmp_path: Path) -> None:
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
        write_graph(graph, tmp_path / "graph")


def test_what_is_no_graph_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "graph"
    with pytest.raises(FileNotFoundError):
        read_graph(path)
    graph = load_model(f"{NETWORKS / 'tiny.py'}:tiny").graph
    write_graph(graph, path)
    whole = path.read_bytes()
    swaps = [
        (b'"class":"Conv"', b'"class":"Cone"'), (b'"class":"Conv"', b'"class":"Pool"'), (b'"format":1', b'"format":9'),
        (b'"tensor":0}', b'"tensor":9}'), (b'"inputs"', b'"output"'),
    ]  # fmt: skip
    for old, new in swaps:
        escaped, made = (text.replace(b'"', b'\\"') for text in (old, new))
        assert escaped in whole
        path.write_bytes(whole.replace(escaped, made))
        with pytest.raises(ModelError, match=str(path)):
            read_graph(path)
    for damaged in (b"", whole[:-1], whole[:100], b"x" * 100):
        path.write_bytes(damaged)
        with pytest.raises(ModelError, match=str(path)):
            read_graph(path)
    save_file({"0": torch.zeros(1)}, path)
    with pytest.raises(ModelError, match="no graph of this version"):
        read_graph(path)


@pytest.mark.parametrize("name", ['{"aten":"__class__.__init__"}', '{"torch":"load"}', '{"class":"Path","fields":{}}'])
def test_only_what_graphs_are_made_of_is_looked_up(name: str, tmp_path: Path) -> None:
    path = tmp_path / "graph"
    save_file({"0": torch.zeros(1)}, path, {"graph": f'{{"format":1,"graph":{name}}}'})
    with pytest.raises(ModelError, match="holds no graph"):
        read_graph(path)


def test_what_is_replaced_while_it_is_read_stays_readable(tmp_path: Path) -> None:
    graph, path = load_model(f"{NETWORKS / 'tiny.py'}:tiny").graph, tmp_path / "graph"
    write_graph(graph, path)
    found = read_graph(path)
    zeros = tuple(replace(o, weight=torch.zeros_like(o.weight)) if isinstance(o, Conv) else o for o in graph.operators)
    write_graph(replace(graph, operators=zeros), path)
    assert graph_hash(found) == graph_hash(graph) != graph_hash(read_graph(path))
