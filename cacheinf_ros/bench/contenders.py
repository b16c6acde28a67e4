# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The dense engines that users would run otherwise. Each is built once and called with a prepared input."""

from __future__ import annotations

import copy
import io
import logging
import warnings
from collections.abc import Callable
from contextlib import redirect_stdout
from enum import Enum
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from cacheinf_ros.graph import Model
from cacheinf_ros.graph.interpret import DenseGraph

_log = logging.getLogger(__name__)

Dense = Callable[[NDArray[np.float32]], list[NDArray[Any]]]
"""float32 [1, 3, height, width] -> outputs, in the model's order."""

_ERRORS = 3  # a severity of ONNX Runtime, which has no names for them


class Contender(Enum):
    """A dense engine."""

    EAGER = "dense_eager"
    CHANNELS_LAST = "dense_channels_last"
    COMPILE = "torch_compile"
    ONNXRUNTIME = "onnxruntime"
    OPENVINO = "openvino"


def build_contenders(model: Model, wanted: tuple[Contender, ...], threads: int) -> dict[Contender, Dense]:
    """The contenders that are installed and can run the model; the others are named in the log, with the reason."""
    contenders: dict[Contender, Dense] = {}
    exported = _OnnxExport(model)
    for contender in wanted:
        try:
            contenders[contender] = _build(contender, model, exported, threads)
        except ImportError as error:
            _log.warning("%s is not measured: %s", contender.value, error)
        except Exception as error:  # each engine fails in its own way, and none may end the benchmark
            first_line = (str(error).strip().splitlines() or [""])[0]
            _log.warning("%s cannot run %s: %s: %s", contender.value, model.name, type(error).__name__, first_line)
    return contenders


def _build(contender: Contender, model: Model, exported: _OnnxExport, threads: int) -> Dense:
    if contender is Contender.EAGER:
        return _torch(model.module)
    if contender is Contender.CHANNELS_LAST:
        return _torch(DenseGraph(model.graph), memory_format=torch.channels_last)
    if contender is Contender.COMPILE:
        module = copy.deepcopy(model.module).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        compiled = torch.compile(module, options={"freezing": True})  # packs weights, folds batch norms
        dense = _torch(compiled, memory_format=torch.channels_last)
        dense(np.zeros((1, 3, *model.input_size), np.float32))
        return dense
    return (run_by_onnxruntime if contender is Contender.ONNXRUNTIME else _openvino)(exported.content(), threads)


def _torch(module: Callable[..., Any], memory_format: torch.memory_format = torch.contiguous_format) -> Dense:
    @torch.inference_mode()
    def run(image: NDArray[np.float32]) -> list[NDArray[Any]]:
        result = module(torch.from_numpy(image).contiguous(memory_format=memory_format))
        values = list(result.values()) if isinstance(result, dict) else result
        return [value.numpy() for value in (values if isinstance(values, (list, tuple)) else [values])]

    return run


def run_by_onnxruntime(content: bytes, threads: int) -> Dense:
    """Prepare an ONNX model for ONNX Runtime; only its errors are printed, as some files get a warning per weight."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = _ERRORS
    session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    name = session.get_inputs()[0].name
    return lambda image: list(session.run(None, {name: image}))


def _openvino(content: bytes, threads: int) -> Dense:
    import openvino

    core = openvino.Core()
    options = {"INFERENCE_NUM_THREADS": threads, "PERFORMANCE_HINT": "LATENCY", "INFERENCE_PRECISION_HINT": "f32"}
    compiled = core.compile_model(core.read_model(content), "CPU", options)

    def run(image: NDArray[np.float32]) -> list[NDArray[Any]]:
        results = compiled(image)
        return [results[port] for port in compiled.outputs]

    return run


class _OnnxExport:
    """The model as ONNX, exported when first asked for."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._content: bytes | None = None

    def content(self) -> bytes:
        if self._content is None:
            image = torch.zeros(1, 3, *self._model.input_size)
            with warnings.catch_warnings(), redirect_stdout(io.StringIO()):
                warnings.simplefilter("ignore")
                program = torch.onnx.export(self._model.module, (image,), dynamo=True, verbose=False)
            assert program is not None
            self._content = program.model_proto.SerializeToString()
        return self._content
