# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Stores the scales of models between starts, in the user's cache directory."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict
from enum import Enum
from io import BytesIO
from pathlib import Path
from typing import Any
from zipfile import ZIP_STORED, ZipFile

import numpy as np
import torch

from cacheinf_ros.disk_cache import KeptFile, cache_folder
from cacheinf_ros.engine.engine_config import EngineConfig, Precision
from cacheinf_ros.engine.kernels.kernel_library import kernel_library
from cacheinf_ros.engine.preprocess import values_digest
from cacheinf_ros.errors import EngineError
from cacheinf_ros.graph import Graph, Model, Scales, graph_hash
from cacheinf_ros.graph.ir import Conv, Levels

_VERSION = 1  # of the file's content
_CONTENT = "__content__"


class Maker(Enum):
    """Who made the scales; the value is the folder where they are kept.

    A user chooses the frames that scales are made from, and uses them for precision ``int8``. A node makes scales from
    the frames that it sees, to compute frames between bursts, and must not replace the user's.
    """

    USER = "scales"
    NODE = "scales_of_nodes"


def keep_scales(model: Model, scales: Scales, maker: Maker = Maker.USER) -> Path | None:
    """Keep a model's scales for the next start, in place of earlier ones, and return the file's path.

    Where they cannot be written, it logs a warning and returns None.
    """
    file = _file(model, maker)
    return file.path if file.write(scales_bytes(scales)) else None


def kept_scales(model: Model, maker: Maker = Maker.USER) -> Scales | None:
    """Return the scales that were kept for a model; None where there are none or, after a warning, none that fit it."""
    return _file(model, maker).read(lambda data: checked_scales(bytes(data), model.graph))


def computes_int8(device: str) -> bool:
    """Tell whether engines on a device can compute in int8: CPUs can, where the kernels were compiled."""
    return torch.device(device).type == "cpu" and kernel_library() is not None


def is_int8(model: Model, device: str) -> bool:
    """Tell whether a model is computed in int8 on a device by its own scales, whatever precision is configured."""
    return model.scales is not None and computes_int8(device)


def precision_of(model: Model, config: EngineConfig) -> Precision:
    """Return the precision in which an engine with this configuration computes a model."""
    return Precision.INT8 if is_int8(model, config.device) else config.precision


def scales_digest(model: Model) -> str:
    """Return a hash of a model's own scales, or else of those that the user has kept for it; empty without any."""
    if model.scales is not None:
        return hashlib.sha256(scales_bytes(model.scales)).hexdigest()[:16]
    try:
        return hashlib.sha256(_file(model, Maker.USER).path.read_bytes()).hexdigest()[:16]
    except OSError:
        return ""


def scales_bytes(scales: Scales) -> bytes:
    """Encode scales as they are stored, in an npz archive."""
    content = {
        "levels": {name: asdict(levels) for name, levels in scales.levels.items()},
        "floats": sorted(scales.floats),
    }
    arrays: dict[str, Any] = {f"bias:{name}": value.numpy() for name, value in scales.biases.items()}
    arrays |= {f"weight:{name}": value.numpy() for name, value in scales.weight_scales.items()}
    written = BytesIO()
    np.savez(written, allow_pickle=False, **arrays, **{_CONTENT: np.array(json.dumps(content))})
    return written.getvalue()


def scales_of(data: bytes | memoryview) -> Scales:
    """Decode scales that :func:`scales_bytes` has encoded, without checking them."""
    with np.load(BytesIO(data)) as file:
        content = json.loads(str(file[_CONTENT]))
        arrays = {name: torch.from_numpy(file[name]) for name in file.files if name != _CONTENT}
    return Scales(
        levels={name: Levels(**levels) for name, levels in content["levels"].items()},
        biases=_named(arrays, "bias:"),
        weight_scales=_named(arrays, "weight:"),
        floats=frozenset(content["floats"]),
    )


def checked_scales(data: bytes, graph: Graph) -> Scales:
    """Decode scales from an untrusted source, and check all lengths and values, which compiled kernels do not.

    Raises:
        EngineError: the bytes are no scales, or not those of this graph.
    """
    try:
        with ZipFile(BytesIO(data)) as archive:
            is_packed = any(member.compress_type != ZIP_STORED for member in archive.infolist())
        scales = None if is_packed else scales_of(data)
        fits = scales is not None and _fit(scales, graph)
    except Exception as error:  # numpy and zipfile have no error of their own for bytes that make no sense
        raise EngineError(f"they cannot be read: {type(error).__name__}: {error}") from None
    if scales is None:
        raise EngineError("they are packed, which ours never are: what comes out may be of any size")
    if not fits:
        raise EngineError("they are not this network's")
    return scales


def _fit(scales: Scales, graph: Graph) -> bool:
    channels = {operator.output: len(operator.bias) for operator in graph.operators if isinstance(operator, Conv)}
    levels, units = scales.levels.values(), scales.weight_scales.values()
    per_channel = [*scales.biases.items(), *scales.weight_scales.items()]
    return (
        scales.levels.keys() <= graph.tensors.keys()
        and scales.floats <= channels.keys()
        and all(type(each.scale) is float and type(each.zero) is int for each in levels)
        and all(bool((unit > 0).all() and torch.isfinite(unit).all()) for unit in units)
        and all(each.dtype == torch.float32 and tuple(each.shape) == (channels[name],) for name, each in per_channel)
        and all(bool(torch.isfinite(bias).all()) for bias in scales.biases.values())
    )


def _named(arrays: Mapping[str, torch.Tensor], prefix: str) -> dict[str, torch.Tensor]:
    return {name.removeprefix(prefix): value for name, value in arrays.items() if name.startswith(prefix)}


def _file(model: Model, maker: Maker) -> KeptFile:
    name = f"{Path(model.name).name}-{graph_hash(model.graph)}-{values_digest(model.card)}.{_VERSION}.npz"
    return KeptFile(path=cache_folder() / maker.value / name, what="scales", remedy="quantising")
