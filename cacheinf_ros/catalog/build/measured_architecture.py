# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Measures an architecture on this machine with the real engine."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import cv2
import numpy as np
import torch
from numpy.typing import NDArray

from cacheinf_ros.catalog.prices import Measured
from cacheinf_ros.engine import Engine, EngineConfig, Preprocessor, map_bytes
from cacheinf_ros.errors import CatalogError
from cacheinf_ros.graph import Model, ModelCard, model_of, weight_bytes
from cacheinf_ros.graph.graph_cache import keep, kept_graph
from cacheinf_ros.mode import Mode
from cacheinf_ros.offload.planning import Workload, profile

Image = NDArray[np.uint8]
_PREPARATIONS = 3
_WARM_UP, _RUNS, _ENOUGH_MS = 3, 15, 1500.0
_TURNS = 30
_FAST = [cv2.IMWRITE_PNG_COMPRESSION, 1]


def measure(model: Model, image: Image, threads: int) -> Measured:
    """Time dense frames, loading, and each operator; compute the memory needed.

    Args:
        image: uint8 [height, width, 3] of any size.

    Raises:
        CatalogError: operators cannot be timed on this machine.
    """
    config = EngineConfig(mode=Mode.DENSE, cache_budget_mb=0.0, threads=threads)
    engine = Engine(model, config)  # the first engine on a machine measures kernels, once
    prepare_ms, kept_bytes = _loading(model, config)
    layout = engine.program.layout
    workload = Workload(layout)
    took = profile(layout, workload.space, engine.cost)
    if not took[:, -1].sum():
        raise CatalogError(
            "the engine's kernels are not compiled here, so that nothing can be measured: run `cacheinf doctor`"
        )
    return Measured(
        device_ms=_significant(_frame_ms(engine, image)),
        prepare_ms=_significant(prepare_ms),
        kept_bytes=kept_bytes,
        memory_bytes=resident_bytes(engine) + (0 if kept_bytes or model.scales is None else weight_bytes(model.graph)),
        whole_bytes=weight_bytes(layout.graph) + _every_map(engine),
        workload=workload,
        took=took,
    )


def resident_bytes(engine: Engine) -> int:
    """Return the bytes that a loaded model takes: parameters, kept tensors, and the planned arena."""
    return weight_bytes(engine.program.layout.graph) + engine.cache_bytes + engine.arena_bytes


def frames_ms(engines: Sequence[Engine], image: Image) -> list[float]:
    """Return each engine's median time of a dense frame, ms; they take turns, so that times are comparable.

    Args:
        image: uint8 [height, width, 3] of any size.
    """
    took: list[list[float]] = [[] for _ in engines]
    for _ in range(_TURNS):
        for engine, times in zip(engines, took, strict=True):
            started = time.perf_counter()
            engine.run(image, None)
            times.append(1e3 * (time.perf_counter() - started))
    return [float(np.median(times)) for times in took]


def image_bytes_per_pixel(images: Sequence[Image], card: ModelCard) -> float:
    """Return the mean bytes per pixel of frames at the model's size as PNG, as offloading sends them."""
    preprocessor = Preprocessor(card)
    sizes = [cv2.imencode(".png", preprocessor.resize(image), _FAST)[1].size for image in images]
    return float(np.mean(sizes)) / (preprocessor.size[0] * preprocessor.size[1])


def _loading(model: Model, config: EngineConfig) -> tuple[float, int]:
    """Time the loading of a model as a node does it.

    Returns the milliseconds, the fastest of several runs, and the size in bytes of the file that it is loaded from. A
    model that cannot be kept in a file is exported anew each time; its size is 0.
    """
    with TemporaryDirectory() as folder:
        path = Path(folder) / "graph.safetensors"
        is_kept = keep(model.graph, path)
        took_ms = []
        for _ in range(_PREPARATIONS):
            started = time.perf_counter()
            graph = kept_graph(path) if is_kept else None
            graph = model_of(model.module, model.card).graph if graph is None else graph
            Engine(replace(model, graph=graph), config)
            took_ms.append(1e3 * (time.perf_counter() - started))
        return min(took_ms), path.stat().st_size if is_kept else 0


def _frame_ms(engine: Engine, image: Image) -> float:
    took: list[float] = []
    with torch.inference_mode():
        while len(took) < _WARM_UP + _RUNS or sum(took) < _ENOUGH_MS:
            started = time.perf_counter()
            engine.run(image, None)
            took.append(1e3 * (time.perf_counter() - started))
    return float(np.median(took[_WARM_UP:]))


def _significant(milliseconds: float) -> float:
    """Round to two digits: the next is noise, by which variants would reach the front by accident."""
    return float(f"{milliseconds:.2g}")


def _every_map(engine: Engine) -> int:
    layout = engine.program.layout
    roots = {layout.root(name) for name in (layout.graph.input, *(o.output for o in layout.operators))}
    return sum(map_bytes(layout, name) for name in roots)
