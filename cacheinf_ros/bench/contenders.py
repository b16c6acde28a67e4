# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The dense engines that users would run otherwise. Each is built once and called with a prepared input."""

from __future__ import annotations

import copy
import logging
from enum import Enum

import numpy as np
import torch

from cacheinf_ros.engine.dense_backends import Backend, Dense, prepare, run_by_torch
from cacheinf_ros.graph import Model

_log = logging.getLogger(__name__)


class Contender(Enum):
    """A dense engine."""

    EAGER = "dense_eager"
    CHANNELS_LAST = "dense_channels_last"
    COMPILE = "torch_compile"
    ONNXRUNTIME = "onnxruntime"
    OPENVINO = "openvino"


_BACKENDS = {
    Contender.CHANNELS_LAST: Backend.TORCH,
    Contender.ONNXRUNTIME: Backend.ONNXRUNTIME,
    Contender.OPENVINO: Backend.OPENVINO,
}


def build_contenders(model: Model, wanted: tuple[Contender, ...], threads: int) -> dict[Contender, Dense]:
    """The contenders that are installed and can run the model; the others are named in the log, with the reason."""
    contenders: dict[Contender, Dense] = {}
    for contender in wanted:
        try:
            contenders[contender] = _build(contender, model, threads)
        except ImportError as error:
            _log.warning("%s is not measured: %s", contender.value, error)
        except Exception as error:  # each engine fails in its own way, and none may end the benchmark
            first_line = (str(error).strip().splitlines() or [""])[0]
            _log.warning("%s cannot run %s: %s: %s", contender.value, model.name, type(error).__name__, first_line)
    return contenders


def _build(contender: Contender, model: Model, threads: int) -> Dense:
    if contender is Contender.EAGER:
        return run_by_torch(model.module)
    if contender is Contender.COMPILE:
        module = copy.deepcopy(model.module).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        compiled = torch.compile(module, options={"freezing": True})  # packs weights, folds batch norms
        dense = run_by_torch(compiled, memory_format=torch.channels_last)
        dense(np.zeros((1, 3, *model.input_size), np.float32))
        return dense
    return prepare(_BACKENDS[contender], model, threads)
