# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Where what was measured of a model on this machine is kept between starts."""

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
    """A file keyed by all that its content depends on: graph, weights, shapes, machine, device, threads, versions.

    Args:
        whatever_weights: whether the content does not depend on them: networks that differ in them alone share it.
        backend: name of what computes, where the content depends on that: what there was at one start may be missing
            at the next.
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
