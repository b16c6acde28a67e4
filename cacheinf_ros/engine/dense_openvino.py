# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Models prepared by OpenVINO for dense execution on the CPU."""

from __future__ import annotations

from typing import Any

from cacheinf_ros.engine.engine_config import DensePrecision

_IN_OPENVINO = {
    DensePrecision.FLOAT32: ("f32", "FP32"),
    DensePrecision.FLOAT16: ("f16", "FP16"),
    DensePrecision.BFLOAT16: ("bf16", "BF16"),
}


def compiled_by_openvino(content: bytes, threads: int, precision: DensePrecision) -> Any:
    """Compile an ONNX model for the CPU.

    Raises:
        NotImplementedError: this processor does not compute in that precision.
    """
    import openvino

    core, (hint, capability) = openvino.Core(), _IN_OPENVINO[precision]
    if capability not in core.get_property("CPU", "OPTIMIZATION_CAPABILITIES"):
        raise NotImplementedError(f"this processor does not compute in {precision.value}")
    options = {"INFERENCE_NUM_THREADS": threads, "PERFORMANCE_HINT": "LATENCY", "INFERENCE_PRECISION_HINT": hint}
    return core.compile_model(core.read_model(content), "CPU", options)
