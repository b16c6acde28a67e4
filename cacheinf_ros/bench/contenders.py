# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The dense engines that users would run otherwise; each is built once and called with a prepared input.

int8 engines are quantised after training (ONNX Runtime's static quantisation, run by ONNX Runtime and by OpenVINO) on
frames of the whole recording, which include those that are judged: no user's calibration can match the data better.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from enum import Enum
from typing import NamedTuple

from cacheinf_ros.bench.gpu_contenders import GpuContender, build_on_gpu
from cacheinf_ros.bench.ncnn_engine import is_ncnn_installed, run_by_ncnn
from cacheinf_ros.bench.shots import Image
from cacheinf_ros.bench.torch_compiled import compiled_by_torch
from cacheinf_ros.engine import DensePrecision
from cacheinf_ros.engine.dense_backends import Backend, Dense, prepare, run_by_torch
from cacheinf_ros.engine.int8_content import int8_content
from cacheinf_ros.errors import EngineError
from cacheinf_ros.graph import Model

_log = logging.getLogger(__name__)


class Contender(Enum):
    """The dense engines on the CPU; those that the nodes can run too have the names of their backends."""

    EAGER = "dense_eager"
    CHANNELS_LAST = "dense_channels_last"
    COMPILE = "torch_compile"
    ONNXRUNTIME = Backend.ONNXRUNTIME.value
    OPENVINO = Backend.OPENVINO.value
    OPENVINO_FLOAT16 = Backend.OPENVINO_FLOAT16.value
    OPENVINO_BFLOAT16 = Backend.OPENVINO_BFLOAT16.value
    OPENVINO_INT8 = Backend.OPENVINO_INT8.value
    ONNXRUNTIME_INT8 = Backend.ONNXRUNTIME_INT8.value
    NCNN = "ncnn"

    @property
    def backend(self) -> Backend | None:
        """The backend that runs it; None for ncnn, and for torch in a way that no backend has."""
        if self is Contender.CHANNELS_LAST:
            return Backend.TORCH
        return None if self in (Contender.EAGER, Contender.COMPILE, Contender.NCNN) else Backend(self.value)

    @property
    def precision(self) -> DensePrecision:
        """The precision that it computes in."""
        return self.backend.precision if self.backend else DensePrecision.FLOAT32


AnyContender = Contender | GpuContender
ALL_CONTENDERS: tuple[AnyContender, ...] = (*Contender, *GpuContender)
_CALIBRATION_FRAMES = 32


def contenders_on(device: str) -> tuple[AnyContender, ...]:
    """Return the engines that one on this device is compared with: on a GPU those that use it, elsewhere the others.

    ncnn is included only where it is installed, because nothing else needs it.
    """
    if is_gpu(device):
        return tuple(GpuContender)
    return tuple(each for each in Contender if each is not Contender.NCNN or is_ncnn_installed())


def is_gpu(device: str) -> bool:
    """Return whether a torch device is a GPU."""
    return device.partition(":")[0] == "cuda"


class Contenders(NamedTuple):
    """The contenders that could be built, of those that were wanted.

    Attributes:
        runs: the engines that are installed and can run the model.
        missing: why the others are missing, by name.
    """

    runs: dict[AnyContender, Dense]
    missing: dict[str, str]


def build_contenders(
    model: Model, wanted: Sequence[AnyContender], threads: int, images: Sequence[Image] = (), device: str = "cpu"
) -> Contenders:
    """Build the contenders; those that cannot be built are named in the log, with the reason.

    Args:
        images: images of the recording, on which int8 engines are calibrated.
        device: the device of GPU engines; in tests the CPU.
    """
    built = Contenders(runs={}, missing={})
    for contender in wanted:
        try:
            if isinstance(contender, GpuContender):
                built.runs[contender] = build_on_gpu(contender, model, threads, device)
            else:
                built.runs[contender] = _build(contender, model, threads, images)
        except ImportError as error:
            built.missing[contender.value] = f"not installed: {error}"
        except Exception as error:  # each engine fails in its own way, and none may end the benchmark
            first_line = (str(error).strip().splitlines() or [""])[0]
            built.missing[contender.value] = f"cannot run {model.name}: {type(error).__name__}: {first_line}"
        if reason := built.missing.get(contender.value):
            _log.warning("%s is not measured: %s", contender.value, reason)
    return built


def dense_engines(
    model: Model, contenders: Sequence[AnyContender], threads: int, images: Sequence[Image], device: str = "cpu"
) -> dict[AnyContender, Dense]:
    """Build the installed engines, and torch where none in float32 is; int8 engines calibrate on ``images``.

    Args:
        device: the device of GPU engines, and of torch where it is added.

    Raises:
        EngineError: torch cannot compute the model on the device.
    """
    dense = build_contenders(model, contenders, threads, images, device).runs
    if all(contender.precision.loses for contender in dense):
        by_torch = GpuContender.TORCH if is_gpu(device) else Contender.CHANNELS_LAST
        added = build_contenders(model, (by_torch,), threads, device=device)
        if not added.runs:
            raise EngineError(
                f"no dense engine in float32 on {device}: {by_torch.value} {added.missing[by_torch.value]}"
            )
        dense |= added.runs
    return dense


def _build(contender: Contender, model: Model, threads: int, images: Sequence[Image]) -> Dense:
    if contender is Contender.NCNN:
        return run_by_ncnn(model, threads)
    backend = contender.backend
    if backend is None:
        if contender is Contender.EAGER:
            return run_by_torch(model.module)
        return compiled_by_torch(model, options={"freezing": True})  # packs weights, folds batch norms
    if backend.precision is not DensePrecision.INT8:
        return prepare(backend, model, threads).run
    calibration = images[:: max(1, len(images) // _CALIBRATION_FRAMES)]
    return prepare(backend, model, threads, int8_content(model, calibration)).run
