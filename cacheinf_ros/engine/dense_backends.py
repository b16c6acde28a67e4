# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The dense engines that are installed, each with a model prepared for it: what a cache must beat, or give way to."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from cacheinf_ros.engine.onnx_content import onnx_content
from cacheinf_ros.graph import Model
from cacheinf_ros.graph.interpret import DenseGraph

_log = logging.getLogger(__name__)
Dense = Callable[[NDArray[np.float32]], list[NDArray[Any]]]
"""float32 [1, 3, height, width] -> outputs, in the model's order."""
_ERRORS = 3  # a severity of ONNX Runtime, which has no names for them
_NEARLY = 2.0  # times the time of the fastest
_ROUNDS = 7  # of measuring; the first of each backend does not count


class Backend(Enum):
    """Where dense frames can be computed, beside the engine itself."""

    TORCH = "torch"
    ONNXRUNTIME = "onnxruntime"
    OPENVINO = "openvino"


@dataclass(frozen=True, slots=True, kw_only=True)
class DenseBackend:
    """A model prepared for one of them.

    Attributes:
        name: for reports.
        run: computes outputs; they may be overwritten by the next run.
        milliseconds: of a frame on this machine, median.
    """

    name: str
    run: Dense
    milliseconds: float


def fastest_backends(
    model: Model, threads: int, backends: Sequence[Backend] = tuple(Backend)
) -> tuple[DenseBackend, ...]:
    """Prepare a model for every backend that is installed, and measure which is the fastest; takes seconds.

    torch is always there; what is not installed, or cannot run the model, is named in the log.

    Returns:
        the fastest first, then those that are nearly as fast: which one is under load only use can tell.
    """
    found: dict[str, Dense] = {}
    for backend in backends:
        try:
            found[backend.value] = prepare(backend, model, threads)
        except ImportError as error:
            _log.info("dense frames are not tried on %s: %s", backend.value, error)
        except Exception as error:  # each fails in its own way, and none may end a node
            first_line = (str(error).strip().splitlines() or [""])[0]
            _log.warning("%s cannot run %s: %s: %s", backend.value, model.name, type(error).__name__, first_line)
    medians = _measured(found, model.input_size)
    least = min(medians.values())
    return tuple(
        DenseBackend(name=name, run=found[name], milliseconds=took_ms)
        for name, took_ms in sorted(medians.items(), key=lambda each: each[1])
        if took_ms <= _NEARLY * least
    )


def prepare(backend: Backend, model: Model, threads: int) -> Dense:
    """Prepare a model for a backend; raises what the backend raises where it cannot run the model."""
    if backend is Backend.TORCH:
        return run_by_torch(DenseGraph(model.graph), memory_format=torch.channels_last)
    return (run_by_onnxruntime if backend is Backend.ONNXRUNTIME else run_by_openvino)(onnx_content(model), threads)


def run_by_torch(module: Callable[..., Any], memory_format: torch.memory_format = torch.contiguous_format) -> Dense:
    """Prepare a torch module, with torch's own number of threads."""

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


def run_by_openvino(content: bytes, threads: int) -> Dense:
    """Prepare an ONNX model for OpenVINO, in float32."""
    import openvino

    core = openvino.Core()
    options = {"INFERENCE_NUM_THREADS": threads, "PERFORMANCE_HINT": "LATENCY", "INFERENCE_PRECISION_HINT": "f32"}
    compiled = core.compile_model(core.read_model(content), "CPU", options)

    def run(image: NDArray[np.float32]) -> list[NDArray[Any]]:
        results = compiled(image)
        return [results[port] for port in compiled.outputs]

    return run


def _measured(backends: dict[str, Dense], size: tuple[int, int]) -> dict[str, float]:
    """Median milliseconds of each, measured in turn."""
    image = np.zeros((1, 3, *size), np.float32)
    took: dict[str, list[float]] = {name: [] for name in backends}
    for _ in range(_ROUNDS):
        for name, run in backends.items():
            started = time.perf_counter_ns()
            run(image)
            took[name].append((time.perf_counter_ns() - started) / 1e6)
    return {name: float(np.median(values[1:])) for name, values in took.items()}
