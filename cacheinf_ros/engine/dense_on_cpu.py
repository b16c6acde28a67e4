# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Models prepared by dense engines of others that compute on the CPU."""

from __future__ import annotations

from typing import Any

from cacheinf_ros.engine.engine_config import DensePrecision

_ERRORS = 3  # a severity of ONNX Runtime, which has no names for them
_IN_OPENVINO = {
    DensePrecision.FLOAT32: ("f32", "FP32"),
    DensePrecision.FLOAT16: ("f16", "FP16"),
    DensePrecision.BFLOAT16: ("bf16", "BF16"),
}


def session_of_onnxruntime(content: bytes, threads: int) -> Any:
    """A session of ONNX Runtime. Only its errors are printed, as some files get a warning per weight."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = _ERRORS
    # not session.set_denormal_as_zero: that stays set in the caller's thread
    return onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])


def compiled_by_openvino(content: bytes, threads: int, precision: DensePrecision) -> Any:
    """An ONNX model compiled by OpenVINO.

    Raises:
        NotImplementedError: this processor does not compute in that precision.
    """
    import openvino

    core, (hint, capability) = openvino.Core(), _IN_OPENVINO[precision]
    if capability not in core.get_property("CPU", "OPTIMIZATION_CAPABILITIES"):
        raise NotImplementedError(f"this processor does not compute in {precision.value}")
    options = {"INFERENCE_NUM_THREADS": threads, "PERFORMANCE_HINT": "LATENCY", "INFERENCE_PRECISION_HINT": hint}
    return core.compile_model(core.read_model(content), "CPU", options)
