# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Tests the claim that fewer cache misses make inference faster.

The claim is made by Pisarchyk and Lee, 2020, sections 1 and 2.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from cacheinf_ros.bench.timing import measured
from cacheinf_ros.engine import Engine, EngineConfig, Mode
from cacheinf_ros.engine.caching import EVERYTHING, Caching, droppable
from cacheinf_ros.engine.layout import lay_out
from cacheinf_ros.graph import load_model
from cacheinf_ros.memory import MIB

MODELS = ("torchvision:mobilenet_v2", "torchvision:googlenet", "torchvision:resnet50")
_WARM_UP = 3


def arena_speed(models: Sequence[str] = MODELS, *, frames: int, threads: int) -> list[dict[str, Any]]:
    """Time dense frames with all maps in one arena, and with separate memory for every map, in turn.

    The kernels are the same: only where maps lie differs. Nothing is computed strip by strip, where no map exists
    whole.
    """
    rows = []
    for reference in models:
        model = load_model(reference)
        config = EngineConfig(mode=Mode.DENSE, threads=threads)
        nothing_kept = Caching(dropped=frozenset(droppable(lay_out(model.graph))))
        arena, naive = (Engine(model, config, caching) for caching in (nothing_kept, EVERYTHING))
        image = np.random.default_rng(0).integers(0, 256, (*model.input_size, 3), dtype=np.uint8)
        took: dict[str, list[float]] = {"arena": [], "naive": []}
        for turn in range(frames + _WARM_UP):
            pair = [("arena", arena), ("naive", naive)]
            for name, engine in pair if turn % 2 else reversed(pair):
                _, ms = measured(engine.run, image, None)
                took[name] += [ms] if turn >= _WARM_UP else []
        one, other = (float(np.median(took[name])) for name in ("arena", "naive"))
        rows.append(
            {
                "model": model.name,
                "arena MiB": round((arena.arena_bytes + arena.cache_bytes) / MIB, 1),
                "naive MiB": round(naive.cache_bytes / MIB, 1),
                "arena ms": round(one, 2),
                "naive ms": round(other, 2),
                "faster": f"{1 - one / other:.1%}",
            }
        )
    return rows
