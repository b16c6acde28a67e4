# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Prepares a model for each dense engine that is installed, and measures it: what a cache must beat, or give way to."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

from cacheinf_ros.engine.dense_onnxruntime import (
    onnxruntime_on_cpu,
    onnxruntime_on_cuda,
    onnxruntime_on_tensorrt,
)
from cacheinf_ros.engine.dense_openvino import compiled_by_openvino
from cacheinf_ros.engine.dense_program import DenseProgram
from cacheinf_ros.engine.dense_torch_on_gpu import TorchOnDevice, as_array
from cacheinf_ros.engine.engine_config import DensePrecision, Precision
from cacheinf_ros.engine.execution.torch_threads import in_torch_threads
from cacheinf_ros.engine.onnx_content import onnx_content
from cacheinf_ros.engine.preprocess import Preprocessor
from cacheinf_ros.engine.tf32 import in_full_precision
from cacheinf_ros.errors import EngineError
from cacheinf_ros.graph import DenseGraph, Model, Scales, Shared

_log = logging.getLogger(__name__)
Dense = Callable[[NDArray[np.float32]], list[NDArray[Any]]]
"""Computes a model's outputs, in the model's order, from its input, float32 [1, 3, height, width]."""
InInt8: TypeAlias = bytes | Scales
"""A quantised model: an ONNX file for other engines, or scales for our own."""
_NEARLY = 2.0  # backends up to this many times slower than the fastest are nearly as fast
CLEARLY = 0.9
"""The share of the time in float32 that a lower precision must not exceed to be worth its bursts and its loss."""
_ROUNDS = 6  # measured rounds, after one that does not count
UNCOUNTED_ON_GPU = 5
"""The number of first frames that no measurement counts: kernels are compiled in the first, the fourth is captured."""


class Backend(Enum):
    """The engines that can compute dense frames; ``OWN`` stands for this package's own kernels, without a cache."""

    OWN = "cacheinf"
    TORCH = "torch"
    ONNXRUNTIME = "onnxruntime"
    OPENVINO = "openvino"
    OPENVINO_FLOAT16 = "openvino_f16"
    OPENVINO_BFLOAT16 = "openvino_bf16"
    OWN_BFLOAT16 = "cacheinf_bf16"
    OPENVINO_INT8 = "openvino_int8"
    ONNXRUNTIME_INT8 = "onnxruntime_int8"
    OWN_INT8 = "cacheinf_int8"
    OWN_CUDA = "cacheinf_cuda"
    OWN_CUDA_FLOAT16 = "cacheinf_cuda_f16"
    OWN_CUDA_BFLOAT16 = "cacheinf_cuda_bf16"
    TORCH_CUDA = "torch_cuda"
    TORCH_CUDA_TF32 = "torch_cuda_tf32"
    TORCH_CUDA_FLOAT16 = "torch_cuda_f16"
    TORCH_CUDA_BFLOAT16 = "torch_cuda_bf16"
    ONNXRUNTIME_CUDA = "onnxruntime_cuda"

    @property
    def on_gpu(self) -> bool:
        """Whether the backend computes on the device that it is prepared for; the others compute on the CPU."""
        return self in _ON_GPU

    @property
    def precision(self) -> DensePrecision:
        """The precision that the backend computes in."""
        return _LOWER.get(self, DensePrecision.FLOAT32)


_LOWER = {
    Backend.OPENVINO_FLOAT16: DensePrecision.FLOAT16,
    Backend.OPENVINO_BFLOAT16: DensePrecision.BFLOAT16,
    Backend.OWN_BFLOAT16: DensePrecision.BFLOAT16,
    Backend.OPENVINO_INT8: DensePrecision.INT8,
    Backend.ONNXRUNTIME_INT8: DensePrecision.INT8,
    Backend.OWN_INT8: DensePrecision.INT8,
    Backend.TORCH_CUDA_TF32: DensePrecision.FLOAT16,  # TF32 has as many bits of mantissa as float16
    Backend.TORCH_CUDA_FLOAT16: DensePrecision.FLOAT16,
    Backend.TORCH_CUDA_BFLOAT16: DensePrecision.BFLOAT16,
    Backend.OWN_CUDA_FLOAT16: DensePrecision.FLOAT16,
    Backend.OWN_CUDA_BFLOAT16: DensePrecision.BFLOAT16,
}
_ON_GPU = frozenset(backend for backend in Backend if "_cuda" in backend.value)
_OWN = frozenset(backend for backend in Backend if backend.value.startswith("cacheinf"))
_TORCH_ON_GPU = {
    Backend.TORCH_CUDA: torch.float32,
    Backend.TORCH_CUDA_TF32: torch.float32,
    Backend.TORCH_CUDA_FLOAT16: torch.float16,
    Backend.TORCH_CUDA_BFLOAT16: torch.bfloat16,
}


def backends_for(device: str, *precisions: DensePrecision) -> tuple[Backend, ...]:
    """List the backends of these precisions that compute where an engine on this device does: GPU or CPU."""
    on_gpu = torch.device(device).type == "cuda"
    return tuple(backend for backend in Backend if backend.on_gpu == on_gpu and backend.precision in precisions)


FULL_PRECISION = backends_for("cpu", DensePrecision.FLOAT32)
"""The backends that compute in float32 on the CPU."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A model prepared for one backend: ``run(read(frame))`` computes its outputs.

    Attributes:
        read: prepares a frame, uint8 [height, width, 3], BGR.
        run: computes outputs, in the model's order; they may be overwritten by the next run.
    """

    read: Callable[[NDArray[np.uint8]], Any]
    run: Callable[[Any], list[NDArray[Any]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class DenseBackend(Prepared):
    """A prepared backend whose speed was measured.

    Attributes:
        name: the name for reports.
        precision: the precision that the backend computes in.
        milliseconds: the time that a frame takes on this machine.
    """

    name: str
    precision: DensePrecision
    milliseconds: float


def fastest_backends(
    model: Model, threads: int, backends: Iterable[Backend] = FULL_PRECISION, device: str = "cpu"
) -> tuple[DenseBackend, ...]:
    """Prepare a model for every float32 backend that is installed, and measure which is the fastest; takes seconds.

    torch is always there; what is not installed, or cannot run the model, is named in the log.

    Args:
        device: the device of backends that compute on a GPU.

    Returns:
        the fastest first, then those that are nearly as fast: which one is under load only use can tell.

    Raises:
        EngineError: none can run the model.
    """
    found = {backend: run for backend in backends if (run := _prepared(backend, model, threads, device=device))}
    medians = {backend: float(np.median(values)) for backend, values in _measured(found, model.input_size).items()}
    if not medians:
        raise EngineError(f"no dense engine can compute {model.name}; the log says why of each")
    least = min(medians.values())
    return tuple(
        _backend(backend, found[backend], medians[backend])
        for backend in sorted(found, key=medians.__getitem__)
        if medians[backend] <= _NEARLY * least
    )


def faster_backends(
    model: Model,
    threads: int,
    full: DenseBackend,
    backends: Iterable[Backend],
    int8: InInt8 | None = None,
    device: str = "cpu",
) -> tuple[DenseBackend, ...]:
    """Prepare a model for backends of lower precision, and choose those that are clearly faster.

    That is measured: 16 bits are an advantage on some processors, and int8 costs some networks more than it saves.

    Args:
        full: the fastest of those that compute in float32.
        int8: the model quantised, see :func:`prepare`.
        device: the device of backends that compute on a GPU.

    Returns:
        the most precise first, each clearly faster than all before it.
    """
    found = {backend: run for backend in backends if (run := _prepared(backend, model, threads, int8, device))}
    if not found:
        return ()
    # prepared anew, as ``full`` may be in use in another thread, and can run only once at a time
    runs = {Backend(full.name): prepare(Backend(full.name), model, threads, device=device), **found}
    # the least, not the median: what else the machine does now should not decide for as long as the node runs
    took_ms = {backend: min(values) for backend, values in _measured(runs, model.input_size).items()}
    chosen: list[DenseBackend] = []
    limit_ms = took_ms.pop(Backend(full.name))
    order = list(DensePrecision)
    for each in sorted(took_ms, key=lambda backend: (order.index(backend.precision), took_ms[backend])):
        if took_ms[each] > CLEARLY * limit_ms:
            _log.info("%s is not used: it takes %.1f ms, others %.1f", each.value, took_ms[each], limit_ms)
            continue
        limit_ms = took_ms[each]
        chosen.append(_backend(each, found[each], limit_ms))
    return tuple(chosen)


def _backend(backend: Backend, prepared: Prepared, milliseconds: float) -> DenseBackend:
    return DenseBackend(
        name=backend.value, precision=backend.precision, read=prepared.read, run=prepared.run, milliseconds=milliseconds
    )


def _prepared(
    backend: Backend, model: Model, threads: int, int8: InInt8 | None = None, device: str = "cpu"
) -> Prepared | None:
    """Prepare a model for a backend; None, and a line in the log, where it is not installed or cannot run the model."""
    try:
        prepared = prepare(backend, model, threads, int8, device)
        prepared.run(prepared.read(np.zeros((*model.input_size, 3), np.uint8)))  # what is made lazily may fail as well
        return prepared
    except ImportError as error:
        _log.info("dense frames are not tried on %s: %s", backend.value, error)
    except NotImplementedError as error:
        _log.info("%s is not used: %s", backend.value, error)
    except Exception as error:  # each fails in its own way, and none may end a node
        first_line = (str(error).strip().splitlines() or [""])[0]
        _log.warning("%s cannot run %s: %s: %s", backend.value, model.name, type(error).__name__, first_line)
    return None


def prepare(backend: Backend, model: Model, threads: int, int8: InInt8 | None = None, device: str = "cpu") -> Prepared:
    """Prepare a model for a backend; raises what the backend raises where it cannot run the model.

    Args:
        int8: the model quantised, for a backend of int8: scales for ``OWN_INT8``, for the others what
            :func:`cacheinf_ros.engine.int8_content.int8_content` makes.
        device: the device of backends that compute on a GPU; in tests, the CPU.
    """
    if backend in _OWN:
        scales = int8 if isinstance(int8, Scales) else None
        where = device if backend.on_gpu else "cpu"
        program = DenseProgram(model, threads, Precision(backend.precision.value), where, scales)
        return Prepared(read=program.read, run=program.run)
    return Prepared(read=Preprocessor(model.card).input, run=_run_elsewhere(backend, model, threads, int8, device))


def _run_elsewhere(backend: Backend, model: Model, threads: int, int8: InInt8 | None, device: str) -> Dense:
    if dtype := _TORCH_ON_GPU.get(backend):
        return TorchOnDevice(model.graph, torch.device(device), dtype, rounds=backend is Backend.TORCH_CUDA_TF32)
    if backend is Backend.ONNXRUNTIME_CUDA:
        return _by_session(Shared(None, onnxruntime_on_cuda(onnx_content(model), threads, torch.device(device))))
    if backend is Backend.TORCH:
        return in_torch_threads(run_by_torch(DenseGraph(model.graph), memory_format=torch.channels_last), threads)
    if backend.precision is DensePrecision.INT8:
        assert isinstance(int8, bytes)
        return (run_by_openvino if backend is Backend.OPENVINO_INT8 else run_by_onnxruntime)(int8, threads)
    shared, kind = model.shared, (backend, threads)
    if backend is Backend.ONNXRUNTIME:
        session = shared.get(model.graph, kind, lambda: onnxruntime_on_cpu(onnx_content(model), threads))
        return _by_session(session)
    compiled = shared.get(
        model.graph, kind, lambda: compiled_by_openvino(onnx_content(model), threads, backend.precision)
    )
    return _by_request(compiled)


def run_by_torch(
    module: Callable[..., Any],
    memory_format: torch.memory_format = torch.contiguous_format,
    device: str = "cpu",
    dtype: torch.dtype = torch.float32,
) -> Dense:
    """Prepare a torch module that is on the device in this dtype already; torch's own number of threads is used."""

    @torch.inference_mode()
    def run(image: NDArray[np.float32]) -> list[NDArray[Any]]:
        result = module(torch.from_numpy(image).to(device, dtype).contiguous(memory_format=memory_format))
        values = list(result.values()) if isinstance(result, dict) else result
        return [as_array(value) for value in (values if isinstance(values, (list, tuple)) else [values])]

    return in_full_precision(run, torch.device(device))


def run_by_tensorrt(model: Model, threads: int, device: str) -> Dense:
    """Prepare a model for TensorRT in float16; raises the errors of :func:`onnxruntime_on_tensorrt`."""
    return _by_session(Shared(None, onnxruntime_on_tensorrt(onnx_content(model), threads, torch.device(device))))


def run_by_onnxruntime(content: bytes, threads: int) -> Dense:
    """Prepare an ONNX model for ONNX Runtime."""
    return _by_session(Shared(None, onnxruntime_on_cpu(content, threads)))


def run_by_openvino(content: bytes, threads: int) -> Dense:
    """Prepare an ONNX model for OpenVINO; what is not quantised is computed in float32."""
    return _by_request(Shared(None, compiled_by_openvino(content, threads, DensePrecision.FLOAT32)))


def _by_session(session: Shared[Any]) -> Dense:
    """Return a function that runs a session of ONNX Runtime, which several threads may run at once."""
    name = session.value.get_inputs()[0].name
    return lambda image: list(session.value.run(None, {name: image}))


def _by_request(compiled: Shared[Any]) -> Dense:
    """Return a function that runs a compiled model by its own request, as several threads may run the model."""
    request = compiled.value.create_infer_request()

    def run(image: NDArray[np.float32]) -> list[NDArray[Any]]:
        results = request.infer(image)
        return [results[port] for port in compiled.value.outputs]

    return run


def _measured(backends: Mapping[Backend, Prepared], size: tuple[int, int]) -> dict[Backend, list[float]]:
    """Measure the milliseconds of some runs of each backend, in turn, on a frame of the model's size.

    Outputs are on the CPU when a run ends, so a GPU has been waited for.
    """
    uncounted = UNCOUNTED_ON_GPU if any(backend.on_gpu for backend in backends) else 1
    frame = np.zeros((*size, 3), np.uint8)
    took: dict[Backend, list[float]] = {backend: [] for backend in backends}
    for _ in range(uncounted + _ROUNDS):
        for backend, prepared in backends.items():
            started = time.perf_counter_ns()
            prepared.run(prepared.read(frame))
            took[backend].append((time.perf_counter_ns() - started) / 1e6)
    return {backend: values[uncounted:] for backend, values in took.items()}
