# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""A model quantised to int8 after training, as an ONNX file for other engines: one that was kept, or a new one.

It is made by a process of low priority (:mod:`cacheinf_ros.engine.quantise_onnx`), which ends when this one does.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cacheinf_ros.disk_cache import KeptFile, cache_folder
from cacheinf_ros.engine import quantise_onnx
from cacheinf_ros.engine.onnx_content import onnx_content
from cacheinf_ros.engine.preprocess import Preprocessor
from cacheinf_ros.engine.quantising_process import quantised_by
from cacheinf_ros.graph import Model, graph_hash


def int8_content(model: Model, images: Sequence[NDArray[np.uint8]], stopping: threading.Event | None = None) -> bytes:
    """The serialised ONNX model with quantised weights and activations (QDQ); new ones take a minute or more.

    Of each model the last one is kept.

    Args:
        images: uint8 [height, width, 3], BGR, that the ranges of activations are found on. They should show what
            matters: on an empty room ranges are too narrow for what comes in, on photographs of anything too wide.
        stopping: set where nobody waits for it any more.

    Raises:
        ImportError: what it takes is not installed.
        QuantisationError: it failed, or was stopped.
    """
    preprocessor = Preprocessor(model.card)
    inputs = np.concatenate([preprocessor.input(image) for image in images])
    kept = _kept(model, hashlib.sha256(inputs.tobytes()).hexdigest()[:12])
    found = kept.read(bytes)
    if found is None:
        files: dict[str, bytes | NDArray[Any]] = {
            quantise_onnx.MODEL: onnx_content(model),
            quantise_onnx.INPUTS: inputs,
        }
        program = Path(quantise_onnx.__file__)
        found = quantised_by(program, files, quantise_onnx.QUANTISED, stopping or threading.Event())
        earlier = _all_kept(model)
        kept.write(found)
        for path in earlier:
            with suppress(OSError):
                path.unlink()
    return found


def kept_int8_content(model: Model) -> bytes | None:
    """The one that was kept, whatever images it was calibrated on; None where there is none.

    Raises:
        ImportError: what it takes to make another is not installed.
    """
    for path in _all_kept(model):
        return _kept(model, path.stem.rpartition("-")[2]).read(bytes)
    return None


def _kept(model: Model, images: str) -> KeptFile:
    return KeptFile(path=_folder() / f"{_prefix(model)}{images}.onnx", what="quantised model", remedy="quantising")


def _all_kept(model: Model) -> list[Path]:
    return sorted(_folder().glob(f"{_prefix(model)}*.onnx"))


def _folder() -> Path:
    return cache_folder() / "onnx"


def _prefix(model: Model) -> str:
    import onnxruntime

    return f"{graph_hash(model.graph)}-int8-onnxruntime{onnxruntime.__version__}-"
