# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Models prepared by ONNX Runtime for dense execution, on the CPU or a CUDA device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

_ERRORS = 3  # a severity of ONNX Runtime, which has no names for them
_SPIN_US = "1000"
"""Microseconds that workers spin for the next operator. By default they go on for 40 to 55 ms after a frame: at 30 Hz a
processor does nothing else, and frames are no faster for it (measured)."""
_CPU, _CUDA, _TENSORRT = "CPUExecutionProvider", "CUDAExecutionProvider", "TensorrtExecutionProvider"


def onnxruntime_on_cpu(content: bytes, threads: int) -> Any:
    """Prepare an ONNX model for the CPU."""
    return _session(content, threads, [_CPU])


def onnxruntime_on_cuda(content: bytes, threads: int, device: torch.device) -> Any:
    """Prepare an ONNX model for a CUDA device, in float32 without TF32. This has not run on one yet.

    Raises:
        NotImplementedError: the device is no CUDA device, or this ONNX Runtime computes on none.
    """
    return _session_on(device, content, threads, {_CUDA: {"use_tf32": "0"}})


def onnxruntime_on_tensorrt(content: bytes, threads: int, device: torch.device) -> Any:
    """Have TensorRT build an ONNX model in float16, which takes minutes. This has not run on one yet.

    Raises:
        NotImplementedError: the device is no CUDA device, or this ONNX Runtime has no TensorRT.
    """
    return _session_on(device, content, threads, {_TENSORRT: {"trt_fp16_enable": "1"}, _CUDA: {}})


def _session_on(device: torch.device, content: bytes, threads: int, providers: dict[str, dict[str, str]]) -> Any:
    """Open a session with providers for a CUDA device; the first must exist, the others run what it cannot."""
    import onnxruntime

    first = next(iter(providers))
    if device.type != "cuda":
        raise NotImplementedError(f"{first} does not run on device {device}")
    if first not in onnxruntime.get_available_providers():
        raise NotImplementedError(f"this ONNX Runtime has no {first}: pip install onnxruntime-gpu in its place")
    number = {"device_id": str(device.index or 0)}
    session = _session(content, threads, [*((name, number | options) for name, options in providers.items()), _CPU])
    if first not in session.get_providers():  # without its libraries it falls back to the CPU, and does not raise
        raise NotImplementedError(f"{first} could not be loaded: its libraries are missing")
    return session


def _session(content: bytes, threads: int, providers: Sequence[Any]) -> Any:
    """Open a session that prints only its errors, as some files get a warning per weight."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = _ERRORS
    options.add_session_config_entry("session.intra_op.spin_duration_us", _SPIN_US)  # ignored by older versions
    # not session.set_denormal_as_zero: that stays set in the caller's thread
    return onnxruntime.InferenceSession(content, options, providers=providers)
