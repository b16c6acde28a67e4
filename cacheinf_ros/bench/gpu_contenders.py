# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The dense engines that users with a GPU would run otherwise. Only plain torch has been tried on a GPU.

Their input is float32, prepared on the CPU and uploaded whole.
"""

from __future__ import annotations

from enum import Enum

import torch

from cacheinf_ros.bench.torch_compiled import compiled_by_torch
from cacheinf_ros.engine import DensePrecision
from cacheinf_ros.engine.dense_backends import Backend, Dense, prepare, run_by_tensorrt
from cacheinf_ros.graph import Model

_AUTOTUNED = "max-autotune"  # with CUDA graphs


class GpuContender(Enum):
    """The dense engines on a GPU; those that the nodes can run too have the names of their backends."""

    TORCH = Backend.TORCH_CUDA.value
    TORCH_TF32 = Backend.TORCH_CUDA_TF32.value
    TORCH_FLOAT16 = Backend.TORCH_CUDA_FLOAT16.value
    COMPILE = "torch_compile_cuda"
    COMPILE_FLOAT16 = "torch_compile_cuda_f16"
    ONNXRUNTIME = Backend.ONNXRUNTIME_CUDA.value
    TENSORRT_FLOAT16 = "tensorrt_cuda_f16"

    @property
    def precision(self) -> DensePrecision:
        """The precision that it computes in."""
        return _OF_NO_BACKEND[self] if self in _OF_NO_BACKEND else Backend(self.value).precision


_OF_NO_BACKEND = {
    GpuContender.COMPILE: DensePrecision.FLOAT32,
    GpuContender.COMPILE_FLOAT16: DensePrecision.FLOAT16,
    GpuContender.TENSORRT_FLOAT16: DensePrecision.FLOAT16,
}


def build_on_gpu(contender: GpuContender, model: Model, threads: int, device: str) -> Dense:
    """Prepare a model for a GPU engine; raises the engine's own error where it is missing or cannot run the model.

    Args:
        device: the device; in tests the CPU.
    """
    match contender:
        case GpuContender.COMPILE:
            return compiled_by_torch(model, device, mode=_AUTOTUNED)
        case GpuContender.COMPILE_FLOAT16:
            return compiled_by_torch(model, device, torch.float16, mode=_AUTOTUNED)
        case GpuContender.TENSORRT_FLOAT16:
            return run_by_tensorrt(model, threads, device)
    return prepare(Backend(contender.value), model, threads, device=device).run
