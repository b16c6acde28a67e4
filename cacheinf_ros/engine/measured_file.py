# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Names the files that keep what was measured of a model on this machine between starts."""

from __future__ import annotations

import hashlib
import platform
from pathlib import Path

import torch

from cacheinf_ros.disk_cache import cache_folder
from cacheinf_ros.engine.engine_config import EngineConfig, Precision
from cacheinf_ros.engine.quantisation.scales import precision_of, scales_digest
from cacheinf_ros.graph import Model, graph_hash, structure_hash


def measured_file(
    kind: str, model: Model, config: EngineConfig, suffix: str, *, backend: str = "", whatever_weights: bool = False
) -> Path:
    """Return the path of a file, with a hash of all that its content depends on in its name.

    That is the graph, weights, shapes, machine, device, threads and versions.

    Args:
        whatever_weights: whether the content does not depend on weights: networks that differ only in these share it.
        backend: name of the backend, where the content depends on that: the backend of one start may be missing at the
            next.
    """
    precision = precision_of(model, config)
    parts = (
        structure_hash(model.graph) if whatever_weights else graph_hash(model.graph),
        platform.node(),
        platform.processor(),
        config.device,
        config.threads,
        precision.value,
        *([scales_digest(model)] if precision is Precision.INT8 and not whatever_weights else []),
        *([backend] if backend else []),
    )
    key = "/".join(map(str, (*parts, torch.__version__, suffix)))
    digest = hashlib.sha256(key.encode()).hexdigest()[:16]
    name = digest if whatever_weights else f"{Path(model.name).name}-{digest}"
    return cache_folder() / kind / f"{name}.{suffix}"
