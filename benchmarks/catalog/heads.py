# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Measures what several heads on one trunk cost, run together and apart (MCDNN, section 5.2.2)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.catalog.sharing import find_sharing, use_same_kernels
from cacheinf_ros.bench.shots import Image
from cacheinf_ros.bench.timing import summary, timed
from cacheinf_ros.catalog.heads.attribute_heads import head_model, train_heads
from cacheinf_ros.catalog.labelled_pictures import SCENE_ATTRIBUTES, scene_samples
from cacheinf_ros.catalog.trunks import trunk_model
from cacheinf_ros.engine import Engine, EngineConfig, Mode
from cacheinf_ros.graph import Model, load_model
from cacheinf_ros.matching import MatcherName, MatchingConfig, MatchingStream
from cacheinf_ros.sources import open_source

_WARM_UP = 5
_MODES = (Mode.DENSE, Mode.EXACT)


def run_heads_benchmark(
    reference: str = "scenenames",
    attributes: Sequence[str] = ("object", "crowd", "light"),
    *,
    source: str = "scene:fixed?frames=80&size=240x320",
    scenes: int = 120,
    threads: int = 2,
    weights: Path | None = None,
) -> dict[str, Any]:
    """Train heads on a model's trunk, and run the model alone, the heads together, and each head apart, in turn.

    Args:
        reference: the model that gives the trunk; it is the "one model" of the comparison.
        attributes: names of attributes of the built-in scenes, one per head.
        source: the frames to run on.
        scenes: the number of scenes to train on.

    Returns:
        Per mode: milliseconds per frame of the three contenders, ``together_over_one`` (ratio of mean latencies), and
        whether the outputs together equal those apart bit for bit, with the largest difference; all use the same
        kernels.
    """
    model = load_model(reference, weights=weights)
    trunk = trunk_model(model)
    wanted = {name: SCENE_ATTRIBUTES[name] for name in attributes}
    heads = train_heads(trunk, scene_samples(scenes, 4, model.input_size), wanted)
    models = [head_model(trunk, head) for head in heads]
    images = [frame.image for frame in open_source(source)]
    return {
        "model": reference,
        "source": source,
        "threads": threads,
        "heads": [{"name": h.name, "classes": len(h.labels), "accuracy": h.accuracy} for h in heads],
        "modes": {mode.value: _compared(model, models, images, mode, threads) for mode in _MODES},
    }


def _compared(one: Model, models: Sequence[Model], images: Iterable[Image], mode: Mode, threads: int) -> dict[str, Any]:
    """Run all contenders on every frame, in an order that changes with each frame, and return the mode's report."""
    sharing = find_sharing(models)
    (shared,) = sharing.groups
    config = EngineConfig.checked(mode=mode, threads=threads, dense_fallback=False)
    engines = {"one": Engine(one, config), "together": Engine(shared.model, config)}
    engines |= {model.name: Engine(model, config) for model in models}
    for model in models:
        use_same_kernels(shared, engines["together"], engines[model.name])
    stream = MatchingStream(MatchingConfig(matcher=MatcherName.IDENTITY))
    took: dict[str, list[float]] = {name: [] for name in engines}
    difference = 0.0
    for number, image in enumerate(images):
        cache_map, outputs = stream.match(image), {}
        names = list(engines)
        for name in names[number % len(names) :] + names[: number % len(names)]:
            result, milliseconds = timed(engines[name].run, image, cache_map)
            outputs[name] = {key: value.copy() for key, value in result.outputs.items()}
            if number >= _WARM_UP:
                took[name].append(milliseconds)
        for model in models:
            ours = shared.outputs_of(model.name, outputs["together"])
            difference = max(difference, *(_farthest(ours[key], value) for key, value in outputs[model.name].items()))
    apart = np.sum([took[model.name] for model in models], axis=0)
    means = {name: float(np.mean(values)) for name, values in took.items()}
    return {
        "frames": len(took["one"]),
        "one_model_ms": summary(took["one"]),
        "together_ms": summary(took["together"]),
        "apart_ms": summary(apart.tolist()),
        "together_over_one": means["together"] / means["one"],
        "apart_over_one": float(apart.mean()) / means["one"],
        "largest_difference": difference,
        "identical": difference == 0.0,
        "flops_together_over_apart": shared.merged.flops / shared.merged.flops_apart,
    }


def _farthest(first: Any, second: Any) -> float:
    return float(np.abs(first - second).max())
