# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The dense engines of others: they compute what the model computes, and print nothing themselves."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from cacheinf_ros.bench.contenders import Contender, build_contenders, contenders_on, dense_engines
from cacheinf_ros.engine.dense_backends import run_by_onnxruntime
from cacheinf_ros.errors import EngineError
from cacheinf_ros.graph import ModelCard, load_model, model_of

onnxruntime = pytest.importorskip("onnxruntime")
_WARNINGS = 2


@pytest.fixture(autouse=True)
def _onnxruntime_as_it_comes() -> None:
    """Undo what reading an ONNX file sets for the whole process: onnxruntime's log level."""
    onnxruntime.set_default_logger_severity(_WARNINGS)


def with_initialisers_among_its_inputs() -> onnx.ModelProto:
    """Build a convolution [1, 3, 8, 8] -> [1, 4, 6, 6] as exporters wrote it until 2019, and some still do."""
    weights = np.random.default_rng(0).normal(size=(4, 3, 3, 3)).astype(np.float32)
    image, weight = (
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
        for name, shape in (("x", (1, 3, 8, 8)), ("w", weights.shape))
    )
    graph = helper.make_graph(
        [helper.make_node("Conv", ["x", "w"], ["y"])],
        "net",
        [image, weight],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, (1, 4, 6, 6))],
        [numpy_helper.from_array(weights, "w")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)


def test_onnxruntime_does_not_warn_of_initialisers(capfd: pytest.CaptureFixture[str]) -> None:
    model = with_initialisers_among_its_inputs()
    image = np.random.default_rng(1).normal(size=(1, 3, 8, 8)).astype(np.float32)
    onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    assert "appears in graph inputs" in capfd.readouterr().err  # otherwise the test proves nothing
    (output,) = run_by_onnxruntime(model.SerializeToString(), threads=1)(image)
    assert capfd.readouterr() == ("", "")
    np.testing.assert_allclose(output, ReferenceEvaluator(model).run(None, {"x": image})[0], rtol=1e-4, atol=1e-5)


def test_onnxruntime_still_says_what_is_wrong() -> None:
    with pytest.raises(Exception, match=r"(?i)protobuf parsing failed"):
        run_by_onnxruntime(b"this is no model", threads=1)


def test_onnxruntime_runs_a_model_without_a_word(capfd: pytest.CaptureFixture[str]) -> None:
    model = load_model("scenenet", input_size=(32, 48))
    image = np.random.default_rng(0).normal(size=(1, 3, 32, 48)).astype(np.float32)
    wanted = (Contender.EAGER, Contender.ONNXRUNTIME)
    eager, other = (dense(image)[0] for dense in build_contenders(model, wanted, threads=1).runs.values())
    np.testing.assert_allclose(other, eager, rtol=1e-3, atol=1e-4)
    assert capfd.readouterr() == ("", "")


def test_a_device_that_is_not_there_is_named() -> None:
    network = torch.nn.Conv2d(3, 4, 3, padding=1).eval()
    model = model_of(network, ModelCard(name="t", input_size=(12, 16)))
    with pytest.raises(EngineError, match="no dense engine in float32 on cuda:99: torch_cuda"):
        dense_engines(model, (), 1, [], "cuda:99")


def test_those_for_a_gpu_compute_the_same_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """The GPU's contenders run on the CPU too, without compiling, which takes long; others are named with a reason."""
    modes = []
    monkeypatch.setattr(torch, "compile", lambda module, mode: modes.append(mode) or module)
    network = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3, padding=1), torch.nn.ReLU(), torch.nn.Conv2d(4, 2, 3))
    model = model_of(network.eval(), ModelCard(name="t", input_size=(12, 16)))
    image = np.random.default_rng(0).normal(size=(1, 3, 12, 16)).astype(np.float32)
    (expected,) = build_contenders(model, (Contender.EAGER,), threads=1).runs[Contender.EAGER](image)
    runs, missing = build_contenders(model, contenders_on("cuda:0"), threads=1)
    assert modes == ["max-autotune"] * 2
    assert {contender.value for contender in runs} | set(missing) == {each.value for each in contenders_on("cuda")}
    assert set(missing) == {"onnxruntime_cuda", "tensorrt_cuda_f16"}
    assert all("ExecutionProvider does not run on device cpu" in reason for reason in missing.values())
    for contender, run in runs.items():
        (output,) = run(image)
        np.testing.assert_allclose(output, expected, atol=3e-2 if contender.precision.loses else 1e-5)
    assert not set(contenders_on("cpu")) & set(contenders_on("cuda"))
