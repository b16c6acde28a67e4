# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Models prepared by ONNX Runtime for dense execution, on the CPU or a CUDA device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

_ERRORS = 3  # a severity of ONNX Runtime, which has no names for them
_CPU, _CUDA = "CPUExecutionProvider", "CUDAExecutionProvider"


def onnxruntime_on_cpu(content: bytes, threads: int) -> Any:
    """Prepare an ONNX model for the CPU."""
    return _session(content, threads, [_CPU])


def onnxruntime_on_cuda(content: bytes, threads: int, device: torch.device) -> Any:
    """Prepare an ONNX model for a CUDA device, in float32 without TF32. This has never run on one: none was at hand.

    Raises:
        NotImplementedError: the device is no CUDA device, or this ONNX Runtime computes on none.
    """
    import onnxruntime

    if device.type != "cuda":
        raise NotImplementedError(f"{_CUDA} does not run on device {device}")
    if _CUDA not in onnxruntime.get_available_providers():
        raise NotImplementedError(f"this ONNX Runtime has no {_CUDA}: pip install onnxruntime-gpu in its place")
    session = _session(content, threads, [(_CUDA, {"device_id": str(device.index or 0), "use_tf32": "0"}), _CPU])
    if _CUDA not in session.get_providers():  # without its libraries it falls back to the CPU, and does not raise
        raise NotImplementedError(f"{_CUDA} could not be loaded: its CUDA and cuDNN are missing")
    return session


def _session(content: bytes, threads: int, providers: Sequence[Any]) -> Any:
    """Open a session that prints only its errors, as some files get a warning per weight."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = _ERRORS
    # not session.set_denormal_as_zero: that stays set in the caller's thread
    return onnxruntime.InferenceSession(content, options, providers=providers)
