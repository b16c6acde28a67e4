# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The dense engines that users would run otherwise. Each is built once and called with a prepared input.

Those of int8 are quantised after training (ONNX Runtime's static quantisation, run by ONNX Runtime and by OpenVINO) on
frames of the whole recording, those that are judged as well: no user's calibration can be nearer to what counts.
"""

from __future__ import annotations

import copy
import logging
from collections.abc import Sequence
from enum import Enum

import numpy as np
import torch

from cacheinf_ros.bench.shots import Image
from cacheinf_ros.engine import DensePrecision
from cacheinf_ros.engine.dense_backends import Backend, Dense, prepare, run_by_torch
from cacheinf_ros.engine.int8_content import int8_content
from cacheinf_ros.graph import Model

_log = logging.getLogger(__name__)


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

    @property
    def backend(self) -> Backend | None:
        """What runs it; None: torch, in a way that no backend has."""
        if self is Contender.CHANNELS_LAST:
            return Backend.TORCH
        return None if self in (Contender.EAGER, Contender.COMPILE) else Backend(self.value)

    @property
    def precision(self) -> DensePrecision:
        """What it computes with."""
        return self.backend.precision if self.backend else DensePrecision.FLOAT32

    @property
    def loses(self) -> bool:
        """Whether its answers differ from those of the network."""
        return self.precision is not DensePrecision.FLOAT32


_CALIBRATION_FRAMES = 32


def build_contenders(
    model: Model, wanted: tuple[Contender, ...], threads: int, images: Sequence[Image] = ()
) -> dict[Contender, Dense]:
    """The contenders that are installed and can run the model; the others are named in the log, with the reason.

    Args:
        images: of the recording, for those of int8 to be calibrated on.
    """
    contenders: dict[Contender, Dense] = {}
    for contender in wanted:
        try:
            contenders[contender] = _build(contender, model, threads, images)
        except ImportError as error:
            _log.warning("%s is not measured: %s", contender.value, error)
        except Exception as error:  # each engine fails in its own way, and none may end the benchmark
            first_line = (str(error).strip().splitlines() or [""])[0]
            _log.warning("%s cannot run %s: %s: %s", contender.value, model.name, type(error).__name__, first_line)
    return contenders


def _build(contender: Contender, model: Model, threads: int, images: Sequence[Image]) -> Dense:
    backend = contender.backend
    if backend is None:
        return _compiled(model) if contender is Contender.COMPILE else run_by_torch(model.module)
    if backend.precision is not DensePrecision.INT8:
        return prepare(backend, model, threads).run
    calibration = images[:: max(1, len(images) // _CALIBRATION_FRAMES)]
    return prepare(backend, model, threads, int8_content(model, calibration)).run


def _compiled(model: Model) -> Dense:
    module = copy.deepcopy(model.module).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    compiled = torch.compile(module, options={"freezing": True})  # packs weights, folds batch norms
    dense = run_by_torch(compiled, memory_format=torch.channels_last)
    dense(np.zeros((1, 3, *model.input_size), np.float32))
    return dense
