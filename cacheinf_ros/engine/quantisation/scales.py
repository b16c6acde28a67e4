# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""What a model's levels stand for, kept between starts in the user's cache directory."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import Enum
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import torch

from cacheinf_ros.disk_cache import KeptFile, cache_folder
from cacheinf_ros.graph import Model, graph_hash
from cacheinf_ros.graph.ir import Levels

_VERSION = 1  # of the file's content
_CONTENT = "__content__"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Scales:
    """How the tensors of one graph are written in 8 bits.

    Attributes:
        levels: by tensor; those without any stay floats.
        biases: float32 [channels], by convolution's output: in place of its own, where rounded weights shift the mean.
        weight_scales: float32 [channels], by convolution's output: the units of its weights, where they are given; the
            others take the largest weight of each channel.
        floats: outputs of operators that compute in float32, because they lose too much otherwise.
        round_outputs: whether levels of the graph's outputs count as well, which are floats otherwise.
    """

    levels: Mapping[str, Levels]
    biases: Mapping[str, torch.Tensor] = field(default_factory=dict)
    weight_scales: Mapping[str, torch.Tensor] = field(default_factory=dict)
    floats: frozenset[str] = frozenset()
    round_outputs: bool = False


class Maker(Enum):
    """Who made scales; the value is the folder where they are kept.

    A user chooses what they are made from, and has them for precision ``int8``. A node makes them from what it sees, to
    compute frames between bursts, and must not replace the user's.
    """

    USER = "scales"
    NODE = "scales_of_nodes"


def keep_scales(model: Model, scales: Scales, maker: Maker = Maker.USER) -> Path | None:
    """Keep them for the next start, in place of earlier ones; None, after a warning, where that cannot be."""
    file = _file(model, maker)
    return file.path if file.write(scales_bytes(scales)) else None


def kept_scales(model: Model, maker: Maker = Maker.USER) -> Scales | None:
    """Those that were kept of a model; None where there are none."""
    return _file(model, maker).read(scales_of)


def scales_digest(model: Model) -> str:
    """What the user's are told by from others of the same model; empty where there are none."""
    try:
        return hashlib.sha256(_file(model, Maker.USER).path.read_bytes()).hexdigest()[:16]
    except OSError:
        return ""


def scales_bytes(scales: Scales) -> bytes:
    """Scales as they are kept: an npz archive."""
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
    """What :func:`scales_bytes` wrote."""
    with np.load(BytesIO(data)) as file:
        content = json.loads(str(file[_CONTENT]))
        arrays = {name: torch.from_numpy(file[name]) for name in file.files if name != _CONTENT}
    return Scales(
        levels={name: Levels(**levels) for name, levels in content["levels"].items()},
        biases=_named(arrays, "bias:"),
        weight_scales=_named(arrays, "weight:"),
        floats=frozenset(content["floats"]),
    )


def _named(arrays: Mapping[str, torch.Tensor], prefix: str) -> dict[str, torch.Tensor]:
    return {name.removeprefix(prefix): value for name, value in arrays.items() if name.startswith(prefix)}


def _file(model: Model, maker: Maker) -> KeptFile:
    name = f"{Path(model.name).name}-{graph_hash(model.graph)}.{_VERSION}.npz"
    return KeptFile(path=cache_folder() / maker.value / name, what="scales", remedy="quantising")
