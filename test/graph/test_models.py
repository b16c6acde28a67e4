# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Whole models: the graph computes what the model computes, with local operators only."""

from collections import Counter
from pathlib import Path

import networks.lively
import pytest
from networks.lowered import assert_depends_on_image, assert_same_function

from cacheinf_ros.graph import Graph, Model, load_model
from cacheinf_ros.graph.ir import Concat, Conv, Global

LIVELY = Path(networks.lively.__file__)
DATA = Path(__file__).parents[3] / "shared" / "data" / "models"
SMALL = (96, 128)
LARGE = (224, 224)

MODELS = {
    "alexnet": LARGE, "vgg19": SMALL, "googlenet": SMALL, "resnet50": SMALL, "mobilenet_v2": SMALL,
    "mobilenet_v3_large": SMALL, "squeezenet1_1": SMALL, "regnet_x_16gf": SMALL, "convnext_tiny": SMALL,
    "densenet121": SMALL, "efficientnet_b0": SMALL, "shufflenet_v2_x1_0": SMALL,
    "deeplabv3_mobilenet_v3_large": SMALL, "fcn_resnet50": SMALL, "lraspp_mobilenet_v3_large": SMALL,
}  # fmt: skip


def kinds(graph: Graph) -> Counter[str]:
    return Counter(type(operator).__name__ for operator in graph.operators)


@pytest.fixture(scope="module")
def model(request: pytest.FixtureRequest) -> Model:
    """Load one of :data:`MODELS`; pytest runs all tests of one model before the next."""
    return load_model(f"{LIVELY}:{request.param}", input_size=MODELS[request.param])


@pytest.mark.parametrize("model", MODELS, indirect=True)
def test_torchvision(model: Model) -> None:
    assert_depends_on_image(model.module, model.input_size)
    assert_same_function(model.graph, model.module, model.input_size)
    assert model.graph.unknown == ()
    assert "Global" not in kinds(model.graph)


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        ("resnet50", {"Conv": 54, "Pool": 1, "GlobalMean": 1}),
        ("mobilenet_v2", {"Conv": 53, "GlobalMean": 1}),
        ("efficientnet_b0", {"Conv": 82, "GlobalMean": 17, "Elementwise": 16}),
        ("convnext_tiny", {"Conv": 59, "ChannelNorm": 23, "GlobalMean": 1}),
        ("shufflenet_v2_x1_0", {"Conv": 57, "Pool": 1, "Select": 28, "Concat": 16, "GlobalMean": 1}),
    ],
    indirect=["model"],
)
def test_no_operator_more_than_needed(model: Model, expected: dict[str, int]) -> None:
    assert kinds(model.graph) == expected


@pytest.mark.parametrize("model", ["resnet50"], indirect=True)
def test_every_residual_of_resnet_is_fused(model: Model) -> None:
    assert sum(isinstance(o, Conv) and len(o.inputs) == 2 for o in model.graph.operators) == 16


@pytest.mark.parametrize("model", ["densenet121"], indirect=True)
def test_densenets_concatenations_grow_from_each_other(model: Model) -> None:
    concats = [o for o in model.graph.operators if isinstance(o, Concat)]
    assert len(concats) == 58 and all(len(o.inputs) == 2 for o in concats)


def onnx_file(name: str) -> str:
    if not (DATA / name).is_file():
        pytest.skip(f"{name} is not on this machine")
    return str(DATA / name)


def test_fastestdet_is_local() -> None:
    model = load_model(onnx_file("FastestDet.onnx"))
    assert_same_function(model.graph, model.module, model.input_size)
    assert kinds(model.graph) == {
        "Conv": 70, "Pool": 2, "Concat": 19, "Select": 26, "Resample": 2, "ChannelSoftmax": 1,
    }  # fmt: skip
    assert isinstance(model.graph.operators[-1], Concat)


def test_rfb_is_local_but_for_its_lists_of_boxes() -> None:
    model = load_model(onnx_file("RFB-320_without_postprocessing.onnx"))
    assert_same_function(model.graph, model.module, model.input_size)
    assert model.graph.unknown == ()
    assert kinds(model.graph) == {"Conv": 52, "Concat": 1, "Global": 2}
    boxes = {tensor for _, tensor in model.graph.outputs}
    assert {o.output for o in model.graph.operators if isinstance(o, Global)} == boxes
