# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Quantises models to int8 after training, as ONNX files for other engines, and keeps the files for the next start.

A process of low priority (:mod:`cacheinf_ros.engine.quantise_onnx`) does the work; it ends when this one does.
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
from cacheinf_ros.engine.preprocess import Preprocessor, values_digest
from cacheinf_ros.engine.quantising_process import quantised_by
from cacheinf_ros.graph import Model, graph_hash


def int8_content(model: Model, images: Sequence[NDArray[np.uint8]], stopping: threading.Event | None = None) -> bytes:
    """Return the serialised ONNX model with quantised weights and activations (QDQ); a new one takes a minute or more.

    The last one of each model is kept.

    Args:
        images: uint8 [height, width, 3], BGR, from which the ranges of activations are found. They should show what
            matters: ranges from an empty room are too narrow for what enters it, those from arbitrary photographs too
            wide.
        stopping: set when nobody waits for the result any more.

    Raises:
        ImportError: a package that this needs is not installed.
        QuantisationError: quantising failed, or was stopped.
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
    """Return the quantised model that was kept, whatever images it was calibrated on; None where there is none.

    Raises:
        ImportError: ONNX Runtime, which makes such models, is not installed.
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

    return f"{graph_hash(model.graph)}-{values_digest(model.card)}-int8-onnxruntime{onnxruntime.__version__}-"
