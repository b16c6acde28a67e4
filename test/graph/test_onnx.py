# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""ONNX operators: the module and its graph compute what the format's reference implementation computes."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from cacheinf_ros.engine.onnx_content import onnx_content
from cacheinf_ros.errors import ModelError
from cacheinf_ros.graph import load_model
from cacheinf_ros.graph.interpret import DenseGraph
from cacheinf_ros.graph.ir import Conv

SIZE = (9, 12)
RNG = np.random.default_rng(0)


def floats(*shape: int) -> NDArray[np.float32]:
    return RNG.normal(size=shape).astype(np.float32)


def integers(*values: int) -> NDArray[np.int64]:
    return np.array(values, np.int64)


def saved(
    path: Path, nodes: Sequence[onnx.NodeProto], constants: dict[str, NDArray[Any]], opset: int = 18
) -> onnx.ModelProto:
    """Save a model that computes ``y`` from ``x`` [1, 3, 9, 12], and return it."""
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, *SIZE])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
    model.ir_version = 8
    onnx.save(onnx.shape_inference.infer_shapes(model), path)
    return model


def assert_as_the_reference(path: Path, model: onnx.ModelProto) -> None:
    x = floats(1, 3, *SIZE)
    (expected,) = ReferenceEvaluator(model).run(None, {"x": x})
    assert_computes(path, x, expected)


def assert_computes(path: Path, x: NDArray[np.float32], expected: NDArray[np.float32]) -> None:
    loaded = load_model(str(path))
    assert loaded.graph.unknown == ()
    with torch.inference_mode():
        for network in (loaded.module, DenseGraph(loaded.graph)):
            result = network(torch.from_numpy(x))["y"].numpy()
            assert result.shape == expected.shape
            np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-5)


ONE_INPUT: list[tuple[str, dict[str, Any]]] = [
    ("Abs", {}), ("Celu", {"alpha": 0.5}), ("Elu", {"alpha": 0.5}), ("Erf", {}), ("Exp", {}), ("Flatten", {"axis": 1}),
    ("GlobalAveragePool", {}), ("GlobalMaxPool", {}), ("HardSigmoid", {}),
    ("HardSigmoid", {"alpha": 1 / 6, "beta": 0.5}), ("HardSwish", {}), ("Identity", {}),
    ("LeakyRelu", {"alpha": 0.2}), ("LogSoftmax", {"axis": 1}), ("Mish", {}),
    ("Neg", {}), ("Relu", {}), ("Selu", {}), ("Sigmoid", {}), ("Softmax", {"axis": 1}), ("Softplus", {}),
    ("Softsign", {}), ("SpaceToDepth", {"blocksize": 3}), ("Tanh", {}), ("Transpose", {"perm": [0, 2, 3, 1]}),
    ("Selu", {"alpha": 1.5, "gamma": 0.8}),
    ("MaxPool", {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [0, 1, 2, 1]}),
    ("MaxPool", {"kernel_shape": [2, 3], "strides": [2, 2], "ceil_mode": 1}),
    ("AveragePool", {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1], "count_include_pad": 1}),
    ("AveragePool", {"kernel_shape": [3, 3], "strides": [1, 2], "pads": [1, 1, 1, 1]}),
    ("MaxPool", {"kernel_shape": [3, 2], "strides": [2, 2], "pads": [2, 1, 2, 1]}),
    ("AveragePool", {"kernel_shape": [3, 2], "strides": [2, 1], "pads": [2, 1, 2, 1], "count_include_pad": 1}),
]  # fmt: skip


@pytest.mark.parametrize(("name", "attributes"), ONE_INPUT, ids=lambda value: str(value))
def test_operators_of_one_tensor(tmp_path: Path, name: str, attributes: dict[str, Any]) -> None:
    node = helper.make_node(name, ["x"], ["y"], **attributes)
    assert_as_the_reference(tmp_path / "net.onnx", saved(tmp_path / "net.onnx", [node], {}))


def test_local_response_norm_by_its_definition(tmp_path: Path) -> None:
    """ONNX's reference normalises as many channels as the batch has images, here the first of three only."""
    node = helper.make_node("LRN", ["x"], ["y"], size=3, alpha=0.5, beta=0.6, bias=1.5)
    saved(tmp_path / "net.onnx", [node], {})
    loaded = load_model(str(tmp_path / "net.onnx"))
    x = floats(1, 3, 9, 12)
    near = np.pad(x**2, ((0, 0), (1, 1), (0, 0), (0, 0)))
    expected = x / (1.5 + 0.5 / 3 * (near[:, :-2] + near[:, 1:-1] + near[:, 2:])) ** 0.6
    assert loaded.graph.unknown == ()
    for network in (loaded.module, DenseGraph(loaded.graph)):
        np.testing.assert_allclose(network(torch.from_numpy(x))["y"].numpy(), expected, rtol=1e-4, atol=1e-5)


WITH_CONSTANTS: list[tuple[str, dict[str, NDArray[Any]], dict[str, Any]]] = [
    ("Add", {"b": floats(3, 1, 1)}, {}),
    ("Mul", {"b": floats(1)}, {}),
    ("Sub", {"b": floats(1, 3, 1, 1)}, {}),
    ("Div", {"b": floats(3, 1, 1) + 4}, {}),
    ("Max", {"b": np.float32(0.2)}, {}),
    ("Min", {"b": np.float32(0.2)}, {}),
    ("Sum", {"b": floats(3, 1, 1), "c": floats(1)}, {}),
    ("Pow", {"b": np.float32(2)}, {}),
    ("Pow", {"b": np.full((3, 1, 1), 2, np.float32)}, {}),
    ("PRelu", {"b": floats(3, 1, 1)}, {}),
    ("Clip", {"b": np.float32(-0.3), "c": np.float32(0.4)}, {}),
    ("Clip", {}, {}),
    ("MatMul", {"b": floats(12, 5)}, {}),
    ("BatchNormalization", {"s": floats(3), "b": floats(3), "m": floats(3), "v": floats(3) ** 2 + 1}, {}),
    ("InstanceNormalization", {"s": floats(3), "b": floats(3)}, {}),
    ("LayerNormalization", {"s": floats(12), "b": floats(12)}, {"axis": -1}),
    ("Conv", {"w": floats(4, 3, 3, 2), "b": floats(4)}, {"pads": [1, 0, 2, 1], "strides": [2, 1]}),
    ("Conv", {"w": floats(4, 3, 3, 4)}, {"auto_pad": "SAME_UPPER", "strides": [2, 2]}),
    ("Conv", {"w": floats(4, 3, 4, 3)}, {"auto_pad": "SAME_LOWER"}),
    ("Conv", {"w": floats(6, 1, 3, 3)}, {"group": 3, "dilations": [2, 2]}),
    ("ConvTranspose", {"w": floats(3, 4, 3, 3), "b": floats(4)}, {"strides": [2, 2], "pads": [1, 1, 1, 1]}),
    ("ConvTranspose", {"w": floats(3, 4, 3, 3)}, {"strides": [2, 2], "pads": [0, 1, 1, 0], "output_padding": [1, 1]}),
    ("Reshape", {"s": integers(1, 3, -1)}, {}),
    ("Reshape", {"s": integers(0, -1, 3, 4)}, {}),
    ("Squeeze", {"a": integers(0)}, {}),
    ("Unsqueeze", {"a": integers(1)}, {}),
    ("Expand", {"s": integers(2, 1, 1, 1)}, {}),
    ("Gather", {"i": integers(2, 0)}, {"axis": 1}),
    ("Gather", {"i": np.array(-1)}, {"axis": 2}),
    ("Slice", {"s": integers(1, 0), "e": integers(8, 10**9), "a": integers(2, 3), "t": integers(2, 3)}, {}),
    ("Slice", {"s": integers(-1), "e": integers(-(10**9)), "a": integers(3), "t": integers(-1)}, {}),
    ("Pad", {"p": integers(0, 0, 1, 2, 0, 0, 3, 0), "v": np.float32(0.5)}, {}),
    ("Pad", {"p": integers(0, 0, 1, 2, 0, 0, 3, 1)}, {"mode": "reflect"}),
    ("Pad", {"p": integers(0, 0, 1, 2, 0, 0, 3, 1)}, {"mode": "edge"}),
    ("ReduceMean", {"a": integers(2, 3)}, {"keepdims": 0}),
    ("ReduceMean", {"a": integers(1)}, {}),
    ("ReduceSum", {"a": integers(2, 3)}, {}),
    ("ReduceMax", {"a": integers(1)}, {}),
    ("ReduceMin", {"a": integers(2, 3)}, {}),
    ("ReduceL2", {"a": integers(1)}, {}),
    ("Resize", {"r": floats(0), "s": np.array([1, 1, 2, 2], np.float32)},
     {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}),
    ("Resize", {"r": floats(0), "s": floats(0), "z": integers(1, 3, 20, 17)}, {"mode": "linear"}),
    ("Resize", {"r": floats(0), "s": floats(0), "z": integers(1, 3, 20, 17)},
     {"mode": "linear", "coordinate_transformation_mode": "align_corners"}),
]  # fmt: skip


@pytest.mark.parametrize(("name", "constants", "attributes"), WITH_CONSTANTS)
def test_operators_with_constants(
    tmp_path: Path, name: str, constants: dict[str, NDArray[Any]], attributes: dict[str, Any]
) -> None:
    node = helper.make_node(name, ["x", *constants], ["y"], **attributes)
    assert_as_the_reference(tmp_path / "net.onnx", saved(tmp_path / "net.onnx", [node], constants))


@pytest.mark.parametrize(
    ("kernel", "attributes"),
    [
        ((3, 4), {"strides": [2, 3], "output_shape": [17, 36]}),
        ((3, 4), {"strides": [2, 3], "output_shape": [18, 35], "dilations": [2, 1]}),
        ((3, 4), {"strides": [2, 2], "auto_pad": "SAME_UPPER"}),
        ((4, 3), {"strides": [1, 2], "auto_pad": "SAME_LOWER"}),
        ((2, 2), {"strides": [2, 2], "auto_pad": "VALID"}),
    ],
)
def test_transposed_convolutions_of_a_given_size(
    tmp_path: Path, kernel: tuple[int, int], attributes: dict[str, Any]
) -> None:
    """They are those of ONNX Runtime: the reference cannot compute what is cut off unevenly."""
    node = helper.make_node("ConvTranspose", ["x", "w"], ["y"], **attributes)
    saved(tmp_path / "net.onnx", [node], {"w": floats(3, 4, *kernel)})
    x = floats(1, 3, *SIZE)
    session = onnxruntime.InferenceSession(str(tmp_path / "net.onnx"), providers=["CPUExecutionProvider"])
    (expected,) = session.run(None, {"x": x})
    assert_computes(tmp_path / "net.onnx", x, expected)


@pytest.mark.parametrize("kind", [TensorProto.FLOAT16, TensorProto.DOUBLE])
@pytest.mark.parametrize("casts", [False, True])
def test_files_in_other_floats_are_computed_in_float32(tmp_path: Path, kind: int, casts: bool) -> None:
    """A file may take float32 and cast it, or be in the other type from end to end."""
    dtype, outside = helper.tensor_dtype_to_np_dtype(kind), TensorProto.FLOAT if casts else kind
    given = {"w": floats(4, 3, 3, 3), "b": floats(4), "low": np.float32(-0.25), "high": np.float32(0.5)}
    constants = {name: np.asarray(value, dtype) for name, value in given.items()}
    computing = [
        helper.make_node("Conv", ["a", "w", "b"], ["c"]),
        helper.make_node("Clip", ["c", "low", "high"], ["d"]),
    ]
    moving = [helper.make_node("Identity", ["x"], ["a"]), helper.make_node("Identity", ["d"], ["y"])]
    casting = [
        helper.make_node("Cast", ["x"], ["a"], to=kind),
        helper.make_node("Cast", ["d"], ["y"], to=TensorProto.FLOAT),
    ]
    first, last = casting if casts else moving
    graph = helper.make_graph(
        [first, *computing, last],
        "net",
        [helper.make_tensor_value_info("x", outside, [1, 3, *SIZE])],
        [helper.make_tensor_value_info("y", outside, None)],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])
    model.ir_version = 8
    onnx.save(onnx.shape_inference.infer_shapes(model), tmp_path / "net.onnx")
    in_float32 = {name: np.asarray(value, np.float32) for name, value in constants.items()}
    reference = saved(tmp_path / "float32.onnx", [moving[0], *computing, moving[1]], in_float32)
    x = floats(1, 3, *SIZE)
    (expected,) = ReferenceEvaluator(reference).run(None, {"x": x})
    assert_computes(tmp_path / "net.onnx", x, expected)
    if casts and kind == TensorProto.FLOAT16:  # engines that compute in float32 must not get the file as it is
        session = onnxruntime.InferenceSession(onnx_content(load_model(str(tmp_path / "net.onnx"))))
        (ours,) = session.run(None, {session.get_inputs()[0].name: x})
        np.testing.assert_allclose(ours, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("mode", ["DCR", "CRD"])
def test_channels_become_pixels(tmp_path: Path, mode: str) -> None:
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"]),
        helper.make_node("DepthToSpace", ["c"], ["y"], blocksize=2, mode=mode),
    ]
    model = saved(tmp_path / "net.onnx", nodes, {"w": floats(8, 3, 1, 1)})
    assert_as_the_reference(tmp_path / "net.onnx", model)
    kinds = [type(o).__name__ for o in load_model(str(tmp_path / "net.onnx")).graph.operators]
    assert kinds == ["Conv", "PixelShuffle"]


def test_parts_of_equal_size(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Split", ["x"], ["a", "b"], axis=3, num_outputs=2),
        helper.make_node("Concat", ["b", "a"], ["y"], axis=1),
    ]
    assert_as_the_reference(tmp_path / "net.onnx", saved(tmp_path / "net.onnx", nodes, {}))


@pytest.mark.parametrize("shape", [(1,), (1, 1), (1, 4)])
def test_one_bias_for_all(tmp_path: Path, shape: tuple[int, ...]) -> None:
    """Compiled code once read one bias value for each output, beyond the only one."""
    nodes = [
        helper.make_node("Flatten", ["x"], ["f"]),
        helper.make_node("Gemm", ["f", "w", "b"], ["y"], transB=1),
    ]
    constants = {"w": floats(4, 3 * SIZE[0] * SIZE[1]), "b": floats(*shape)}
    assert_as_the_reference(tmp_path / "net.onnx", saved(tmp_path / "net.onnx", nodes, constants))
    graph = load_model(str(tmp_path / "net.onnx")).graph
    (conv,) = [operator for operator in graph.operators if isinstance(operator, Conv)]
    assert conv.bias.shape == (4,)


def test_a_fully_connected_layer(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Flatten", ["x"], ["f"]),
        helper.make_node("Gemm", ["f", "w", "b"], ["y"], transB=1, alpha=0.5, beta=2.0),
    ]
    constants = {"w": floats(4, 3 * SIZE[0] * SIZE[1]), "b": floats(4)}
    assert_as_the_reference(tmp_path / "net.onnx", saved(tmp_path / "net.onnx", nodes, constants))


def test_a_transposed_convolution_to_more_than_it_computes_is_refused(tmp_path: Path) -> None:
    node = helper.make_node("ConvTranspose", ["x", "w"], ["y"], strides=[2, 2], auto_pad="SAME_UPPER")
    saved(tmp_path / "net.onnx", [node], {"w": floats(3, 4, 1, 1)})
    with pytest.raises(ModelError, match=r"larger than what it computes"):
        load_model(str(tmp_path / "net.onnx"))


def test_softmax_of_earlier_versions_is_over_all_later_dimensions(tmp_path: Path) -> None:
    node = helper.make_node("Softmax", ["x"], ["y"], axis=2)
    saved(tmp_path / "net.onnx", [node], {}, opset=11)
    x = torch.randn(1, 3, *SIZE)
    result = load_model(str(tmp_path / "net.onnx")).module(x)["y"]
    assert torch.allclose(result, x.flatten(2).softmax(2).view(x.shape), atol=1e-6)


@pytest.mark.parametrize(
    ("name", "attributes", "message"),
    [
        ("Hardmax", {}, "operator Hardmax"),
        ("AveragePool", {"kernel_shape": [3, 3], "pads": [0, 1, 1, 0]}, "AveragePool with uneven padding"),
    ],
)
def test_what_is_not_supported_is_named(tmp_path: Path, name: str, attributes: dict[str, Any], message: str) -> None:
    saved(tmp_path / "net.onnx", [helper.make_node(name, ["x"], ["y"], **attributes)], {})
    with pytest.raises(ModelError, match=message):
        load_model(str(tmp_path / "net.onnx"))


def test_initialisers_among_the_inputs_are_read_without_a_word(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    nodes = [
        helper.make_node("Mul", ["b", "b"], ["squared"]),  # folded, by ONNX Runtime where it is installed
        helper.make_node("Conv", ["x", "w", "squared"], ["y"]),
    ]
    model = saved(tmp_path / "net.onnx", nodes, {"w": floats(4, 3, 3, 3), "b": floats(4)})
    for constant in model.graph.initializer:
        model.graph.input.append(helper.make_tensor_value_info(constant.name, constant.data_type, constant.dims))
    onnx.save(onnx.shape_inference.infer_shapes(model), tmp_path / "net.onnx")
    assert_as_the_reference(tmp_path / "net.onnx", model)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("pads", [[0, 0, 1, 1], [1, 0, 1, 1], [0, 0, 2, 2]])
@pytest.mark.parametrize("side", [2, 3])
def test_no_window_begins_behind_the_image(tmp_path: Path, side: int, pads: list[int]) -> None:
    node = helper.make_node(
        "MaxPool", ["x"], ["y"], kernel_shape=[side, side], strides=[side, side], pads=pads, ceil_mode=1
    )
    saved(tmp_path / "net.onnx", [node], {})
    x = torch.randn(1, 3, *SIZE)
    result = load_model(str(tmp_path / "net.onnx")).module(x)["y"]
    counts = [-(-(size + before) // side) for size, before in zip(SIZE, pads[:2], strict=True)]
    whole = torch.nn.functional.pad(x, (pads[1], 2 * side, pads[0], 2 * side), value=float("-inf"))
    assert torch.equal(result, torch.nn.functional.max_pool2d(whole, side)[:, :, : counts[0], : counts[1]])


@pytest.mark.parametrize("axes", [[2], [3, 2], [1], [-1, -2]])
def test_only_some_axes_are_padded(tmp_path: Path, axes: list[int]) -> None:
    constants = {"p": integers(*range(1, 1 + 2 * len(axes))), "a": integers(*axes)}
    model = saved(tmp_path / "net.onnx", [helper.make_node("Pad", ["x", "p", "", "a"], ["y"])], constants)
    assert_as_the_reference(tmp_path / "net.onnx", model)


@pytest.mark.parametrize(
    ("name", "attributes", "shape"),
    [
        ("Flatten", {"axis": 2}, (3, 108)), ("Flatten", {"axis": 0}, (1, 324)), ("Flatten", {"axis": -1}, (27, 12)),
        ("ReduceSum", {"noop_with_empty_axes": 1}, (1, 3, *SIZE)), ("Transpose", {}, (12, 9, 3, 1)),
    ],
)  # fmt: skip
def test_shapes_that_the_format_defines(
    tmp_path: Path, name: str, attributes: dict[str, Any], shape: tuple[int, ...]
) -> None:
    saved(tmp_path / "net.onnx", [helper.make_node(name, ["x"], ["y"], **attributes)], {})
    assert load_model(str(tmp_path / "net.onnx")).module(torch.zeros(1, 3, *SIZE))["y"].shape == shape


def test_new_axes_are_counted_in_the_result(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("ReduceMean", ["x", "ax"], ["mean"], keepdims=0),
        helper.make_node("Unsqueeze", ["mean", "new"], ["gate"]),
        helper.make_node("Mul", ["x", "gate"], ["y"]),
    ]
    model = saved(tmp_path / "net.onnx", nodes, {"ax": integers(2, 3), "new": integers(-2, -1)})
    assert_as_the_reference(tmp_path / "net.onnx", model)


def test_over_all_values_at_once(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Reshape", ["x", "flat"], ["values"]),
        helper.make_node("Softmax", ["values"], ["y"], axis=0),
    ]
    model = saved(tmp_path / "net.onnx", nodes, {"flat": integers(-1)})
    x = floats(1, 3, *SIZE)
    (expected,) = ReferenceEvaluator(model).run(None, {"x": x})
    loaded = load_model(str(tmp_path / "net.onnx"))
    for network in (loaded.module, DenseGraph(loaded.graph)):
        result = network(torch.from_numpy(x))["y"].detach().numpy()
        np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-6)


def test_the_best_class_of_each_pixel(tmp_path: Path) -> None:
    node = helper.make_node("ArgMax", ["x"], ["y"], axis=1, keepdims=0)
    image = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, *SIZE])
    classes = helper.make_tensor_value_info("y", TensorProto.INT64, [1, *SIZE])
    model = helper.make_model(
        helper.make_graph([node], "net", [image], [classes]), opset_imports=[helper.make_opsetid("", 18)]
    )
    model.ir_version = 8
    onnx.save(model, tmp_path / "net.onnx")
    assert_as_the_reference(tmp_path / "net.onnx", model)


@pytest.mark.parametrize(
    ("kind", "low", "high"), [(0, 0, 255), (TensorProto.UINT8, 0, 255), (TensorProto.INT8, -128, 127)]
)
def test_levels_without_a_zero_point_have_the_type_that_the_node_says(
    tmp_path: Path, kind: int, low: int, high: int
) -> None:
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s"], ["q"], **({"output_dtype": kind} if kind else {})),
        helper.make_node("DequantizeLinear", ["q", "s"], ["y"]),
    ]
    saved(tmp_path / "net.onnx", nodes, {"s": np.float32(0.01)}, opset=21)
    x = floats(1, 3, *SIZE)
    expected = np.clip(np.round(x / np.float32(0.01)), low, high).astype(np.float32) * np.float32(0.01)
    (found,) = load_model(str(tmp_path / "net.onnx")).module(torch.from_numpy(x)).values()
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-5, atol=1e-6)


def test_levels_of_other_types_are_refused(tmp_path: Path) -> None:
    node = helper.make_node("QuantizeLinear", ["x", "s"], ["q"], output_dtype=TensorProto.INT16)
    back = helper.make_node("DequantizeLinear", ["q", "s"], ["y"])
    saved(tmp_path / "net.onnx", [node, back], {"s": np.float32(0.01)}, opset=21)
    with pytest.raises(ModelError, match="only to 8 bits"):
        load_model(str(tmp_path / "net.onnx"))
