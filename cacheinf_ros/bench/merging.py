# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The part of ``cacheinf bench memory`` on caches: memory and time with all maps kept, with some, and with none."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from cacheinf_ros.bench.engine_benchmark import check_count, warm_up_frames
from cacheinf_ros.bench.timing import timed
from cacheinf_ros.engine import EVERYTHING, Caching, Engine, EngineConfig, Program, lay_out
from cacheinf_ros.engine.cost import load_or_measure
from cacheinf_ros.engine.quantisation import executed_model
from cacheinf_ros.engine.rematerialisation import Assessment, Assessor, Choices, search_all
from cacheinf_ros.graph import Model, weight_bytes
from cacheinf_ros.matching import MatchingStream, matching_for
from cacheinf_ros.memory import MIB

Image = NDArray[np.uint8]
TORCHVISION_MODELS = (
    "torchvision:vgg19",
    "torchvision:regnet_x_16gf",
    "torchvision:convnext_tiny",
    "torchvision:resnet50",
)
"""The models of Table 6 of the CacheInf paper."""
_TIMED = ("cache_all", "merged")
_BUDGETS = (0.75, 0.5, 0.25, 0.1)  # shares of the memory of all maps


def run_merging_benchmark(
    model: Model, config: EngineConfig, images: Sequence[Image] = (), *, time_limit_s: float
) -> dict[str, Any]:
    """Search for merged caches of a model, and report memory and time.

    Args:
        images: images on which keeping everything and merged caches are timed; none: their times are only predicted.
        time_limit_s: time limit of differential evolution, for each budget.

    Raises:
        SourceError: there are some images, but too few.
    """
    if images:
        check_count(len(images), warm_up_frames(config.device) + 1)
    executed, kernels = executed_model(model, config)
    layout = lay_out(executed.graph)
    with torch.inference_mode():
        cost = load_or_measure(lambda: Program(executed.graph, kernels), executed, config, kernels)
        assess = Assessor(layout, cost)
        choices = search_all(assess, None, time_limit_s=time_limit_s)
        cachings = {
            "no_cache": Caching.nothing(layout),
            "cache_all": EVERYTHING,
            "merged": Caching(dropped=choices.best),
        }
        sizes = {name: _map_bytes(Program(executed.graph, kernels, caching)) for name, caching in cachings.items()}
    weights = weight_bytes(executed.graph)
    merged, everything = assess(choices.best), choices.everything
    report: dict[str, Any] = {name: (weights + size) / MIB for name, size in sizes.items()}  # weights once, unpacked
    report |= {
        "weights": weights / MIB,
        "maps": {"needless": len(assess.names), "dropped": len(choices.best)},
        "predicted_ms": {
            "no_cache": assess.dense.microseconds / 1e3,
            "cache_all": everything.microseconds / 1e3,
            "merged": merged.microseconds / 1e3,
        },
        "methods": _methods(choices),
        "budgets": [_budget(assess, share, time_limit_s) for share in _BUDGETS],
    }
    if images:
        report["measured_ms"] = measured(model, images, config, {name: cachings[name] for name in _TIMED})
    return report


def measured(
    model: Model, images: Iterable[Image], config: EngineConfig, cachings: Mapping[str, Caching]
) -> dict[str, float]:
    """Return the median milliseconds of a frame with each of these caches, run in turn frame by frame."""
    torch.set_num_threads(config.threads)
    engines = {name: Engine(model, config, caching) for name, caching in cachings.items()}
    stream = MatchingStream(matching_for(config.mode))
    took: dict[str, list[float]] = {name: [] for name in engines}
    for i, image in enumerate(images):
        cache_map = stream.match(image)
        for name in itertools.islice(itertools.cycle(engines), i % 2, i % 2 + 2):
            took[name].append(timed(engines[name].run, image, cache_map)[1])
    return {name: float(np.median(values[warm_up_frames(config.device) :])) for name, values in took.items()}


def _map_bytes(program: Program) -> int:
    return program.maps.cache_bytes + program.maps.arena_bytes


def _methods(choices: Choices) -> dict[str, Any]:
    return {name: _figures(found) | {"worth": choices.goal(found)} for name, (_, found) in choices.found.items()}


def _budget(assess: Assessor, share: float, time_limit_s: float) -> dict[str, Any]:
    megabytes = share * sum(map(assess.bytes_of, assess.names)) / 1e6
    started = time.perf_counter()
    choices = search_all(assess, megabytes, time_limit_s=time_limit_s)
    seconds = time.perf_counter() - started
    return {"budget_mb": megabytes, "seconds": seconds, "methods": _methods(choices)}


def _figures(found: Assessment) -> dict[str, float]:
    return {
        "cache_mib": found.cache_bytes / MIB,
        "arena_mib": found.arena_bytes / MIB,
        "predicted_ms": found.microseconds / 1e3,
    }
