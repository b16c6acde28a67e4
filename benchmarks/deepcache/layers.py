# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Time by layer and by type of layer, and the memory that the cache takes: tables 1 to 3, figures 4, 12 and 18."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from benchmarks.deepcache.clips import Clip
from benchmarks.deepcache.engines import DEEPCACHE, DEEPMON, NO_CACHE, WARM_UP, Answer, PaperEngine
from benchmarks.deepcache.networks import NETWORKS, OTHERS, load_network
from benchmarks.deepcache.published import CONVOLUTIONS, TIME_BY_TYPE
from cacheinf_ros.engine.layout import Layout
from cacheinf_ros.graph.ir import Conv, Elementwise, GlobalMean, Operator, Pool

ENGINES = (NO_CACHE, DEEPMON, DEEPCACHE)
TYPES = ("conv", "fc", "pool", "act", "rest")


def time_by_type(clip: Clip, *, frames: int, threads: int) -> list[dict[str, Any]]:
    """Measure table 1: per cent of a dense frame by type of layer; activations that are fused count for their layer."""
    rows = []
    for name in NETWORKS:
        engine = PaperEngine(NO_CACHE, load_network(name), threads=threads)
        took = _medians([engine.run(image) for image in clip.images(frames)])
        by_type = dict.fromkeys(TYPES, 0.0)
        for output, operator in _operators(engine).items():
            by_type[_type(operator, engine.engine.program.layout)] += took[output]
        total = sum(by_type.values())
        for kind, by_tensorflow, by_ncnn in zip(TYPES, *TIME_BY_TYPE[name], strict=True):
            ours = round(100 * by_type[kind] / total, 1)
            rows.append(
                {"network": name, "type": kind, "paper TensorFlow": by_tensorflow, "paper ncnn": by_ncnn, "ours": ours}
            )
    return rows


def convolutions() -> list[dict[str, Any]]:
    """List table 3: the networks, and how many convolutions each has."""
    rows = []
    for name, (_, size) in NETWORKS.items():
        graph = load_network(name).graph
        found = [o for o in graph.operators if isinstance(o, Conv) and graph.tensors[o.output].pixels > 1]
        rows.append(
            {"network": name, "size": "x".join(map(str, size)), "paper": CONVOLUTIONS[name], "ours": len(found)}
        )
    return rows


def time_by_layer(
    network: str, clip: Clip, *, frames: int, threads: int, engines: Sequence[str] = ENGINES
) -> list[dict[str, Any]]:
    """Measure figures 4 and 12: microseconds of each layer by engine, mean over frames."""
    model = load_network(network)
    running = {name: PaperEngine(name, model, threads=threads) for name in engines}
    answers: dict[str, list[Answer]] = {name: [] for name in engines}
    for turn, image in enumerate(clip.images(frames + WARM_UP)):
        for name, engine in running.items():
            answer = engine.run(image)
            answers[name] += [answer] if turn >= WARM_UP else []
    first = next(iter(running.values()))
    return [
        {
            "layer": number,
            "type": _type(operator, first.engine.program.layout),
            **{f"{name}_us": round(float(np.mean([a.layer_us[output] for a in answers[name]])), 1) for name in engines},
        }
        for number, (output, operator) in enumerate(_operators(first).items(), 1)
    ]


def cache_memory(names: Sequence[str] = (*NETWORKS, *OTHERS)) -> list[dict[str, Any]]:
    """Compute figure 18: MB (10**6 bytes) of maps kept between frames, all and (as in the paper) convolutions only."""
    rows = []
    for name in names:
        engine = PaperEngine(DEEPCACHE, load_network(name)).engine
        layout = engine.program.layout
        convolved = [layout.spec(o.output) for o in layout.operators if isinstance(o, Conv)]
        own = sum(4 * spec.channels * spec.pixels for spec in convolved) / 1e6
        rows.append(
            {
                "network": name,
                "taken for it": OTHERS[name].assumed if name in OTHERS else "table 3's",
                "all": round(engine.cache_bytes / 1e6, 1),
                "convolutions": round(own, 1),
            }
        )
    return rows


def _operators(engine: PaperEngine) -> Mapping[str, Operator]:
    return {
        o.output: o
        for o in engine.engine.program.layout.operators
        if o.output in engine.engine.program.profile.microseconds
    }


def _medians(answers: Sequence[Answer]) -> dict[str, float]:
    return {output: float(np.median([a.layer_us[output] for a in answers])) for output in answers[0].layer_us}


def _type(operator: Operator, layout: Layout) -> str:
    """Return which of :data:`TYPES` an operator is; a convolution with a single output pixel is fully connected."""
    if isinstance(operator, Conv):
        return "fc" if layout.spec(operator.output).pixels == 1 else "conv"
    if isinstance(operator, (Pool, GlobalMean)):
        return "pool"
    return "act" if isinstance(operator, Elementwise) and operator.combine is None else "rest"
