# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The dense engines that users would run otherwise. Each is built once and called with a prepared input.

Those of int8 are quantised after training (ONNX Runtime's static quantisation, run by ONNX Runtime and by OpenVINO) on
frames of the whole recording, those that are judged as well: no user's calibration can be nearer to what counts.

Those on a GPU have never run on one: none was at hand. Their input is float32, prepared on the CPU and uploaded whole.
"""

from __future__ import annotations

import copy
import logging
from collections.abc import Sequence
from enum import Enum
from typing import Any, NamedTuple

import numpy as np
import torch

from cacheinf_ros.bench.shots import Image
from cacheinf_ros.engine import DensePrecision
from cacheinf_ros.engine.dense_backends import Backend, Dense, prepare, run_by_tensorrt, run_by_torch
from cacheinf_ros.engine.int8_content import int8_content
from cacheinf_ros.graph import Model

_log = logging.getLogger(__name__)
_AUTOTUNED = "max-autotune"  # with CUDA graphs


class Contender(Enum):
    """A dense engine; those that the nodes can run too have the names of their backends."""

    EAGER = "dense_eager"
    CHANNELS_LAST = "dense_channels_last"
    COMPILE = "torch_compile"
    ONNXRUNTIME = Backend.ONNXRUNTIME.value
    OPENVINO = Backend.OPENVINO.value
    OPENVINO_FLOAT16 = Backend.OPENVINO_FLOAT16.value
    OPENVINO_BFLOAT16 = Backend.OPENVINO_BFLOAT16.value
    OPENVINO_INT8 = Backend.OPENVINO_INT8.value
    ONNXRUNTIME_INT8 = Backend.ONNXRUNTIME_INT8.value
    TORCH_CUDA = Backend.TORCH_CUDA.value
    TORCH_CUDA_TF32 = Backend.TORCH_CUDA_TF32.value
    TORCH_CUDA_FLOAT16 = Backend.TORCH_CUDA_FLOAT16.value
    COMPILE_CUDA = "torch_compile_cuda"
    COMPILE_CUDA_FLOAT16 = "torch_compile_cuda_f16"
    ONNXRUNTIME_CUDA = Backend.ONNXRUNTIME_CUDA.value
    TENSORRT_FLOAT16 = "tensorrt_cuda_f16"

    @property
    def backend(self) -> Backend | None:
        """What runs it; None: no backend does in that way."""
        if self is Contender.CHANNELS_LAST:
            return Backend.TORCH
        return None if self in _OF_NO_BACKEND else Backend(self.value)

    @property
    def precision(self) -> DensePrecision:
        """What it computes with."""
        return self.backend.precision if self.backend else _OF_NO_BACKEND[self]

    @property
    def on_gpu(self) -> bool:
        """Whether it computes on the engine's device; the others on the CPU."""
        return "_cuda" in self.value

    @property
    def loses(self) -> bool:
        """Whether its answers differ from those of the network."""
        return self.precision is not DensePrecision.FLOAT32


_CALIBRATION_FRAMES = 32
_OF_NO_BACKEND = {
    Contender.EAGER: DensePrecision.FLOAT32,
    Contender.COMPILE: DensePrecision.FLOAT32,
    Contender.COMPILE_CUDA: DensePrecision.FLOAT32,
    Contender.COMPILE_CUDA_FLOAT16: DensePrecision.FLOAT16,
    Contender.TENSORRT_FLOAT16: DensePrecision.FLOAT16,
}


def contenders_on(device: str) -> tuple[Contender, ...]:
    """Those that an engine on this device is compared with: on a GPU those that use it, elsewhere the others."""
    on_gpu = device.partition(":")[0] == "cuda"
    return tuple(contender for contender in Contender if contender.on_gpu == on_gpu)


class Contenders(NamedTuple):
    """What could be built of the contenders that were wanted.

    Attributes:
        runs: those that are installed and can run the model.
        missing: why the others cannot, by name.
    """

    runs: dict[Contender, Dense]
    missing: dict[str, str]


def build_contenders(
    model: Model, wanted: Sequence[Contender], threads: int, images: Sequence[Image] = (), device: str = "cpu"
) -> Contenders:
    """Build the contenders; those that cannot be are named in the log, with the reason.

    Args:
        images: of the recording, for those of int8 to be calibrated on.
        device: of those on a GPU; in tests the CPU.
    """
    built = Contenders(runs={}, missing={})
    for contender in wanted:
        try:
            built.runs[contender] = _build(contender, model, threads, images, device)
        except ImportError as error:
            built.missing[contender.value] = f"not installed: {error}"
        except Exception as error:  # each engine fails in its own way, and none may end the benchmark
            first_line = (str(error).strip().splitlines() or [""])[0]
            built.missing[contender.value] = f"cannot run {model.name}: {type(error).__name__}: {first_line}"
        if reason := built.missing.get(contender.value):
            _log.warning("%s is not measured: %s", contender.value, reason)
    return built


def _build(contender: Contender, model: Model, threads: int, images: Sequence[Image], device: str) -> Dense:
    match contender:
        case Contender.EAGER:
            return run_by_torch(model.module)
        case Contender.COMPILE:
            return _compiled(model, options={"freezing": True})  # packs weights, folds batch norms
        case Contender.COMPILE_CUDA:
            return _compiled(model, device, mode=_AUTOTUNED)
        case Contender.COMPILE_CUDA_FLOAT16:
            return _compiled(model, device, torch.float16, mode=_AUTOTUNED)
        case Contender.TENSORRT_FLOAT16:
            return run_by_tensorrt(model, threads, device)
    backend = contender.backend
    assert backend is not None
    if backend.precision is not DensePrecision.INT8:
        return prepare(backend, model, threads, device=device).run
    calibration = images[:: max(1, len(images) // _CALIBRATION_FRAMES)]
    return prepare(backend, model, threads, int8_content(model, calibration)).run


def _compiled(model: Model, device: str = "cpu", dtype: torch.dtype = torch.float32, **options: Any) -> Dense:
    """The network by torch.compile, which is done with compiling when this returns.

    Args:
        options: of torch.compile.
    """
    module = copy.deepcopy(model.module).to(device, dtype)
    module = module.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    dense = run_by_torch(torch.compile(module, **options), torch.channels_last, device, dtype)
    dense(np.zeros((1, 3, *model.input_size), np.float32))
    return dense
