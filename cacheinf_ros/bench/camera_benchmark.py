# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""``cacheinf bench engine --cameras``: cached engines of several cameras, all at once and one after another."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from cacheinf_ros.bench.engine_benchmark import check_count, warm_up_frames
from cacheinf_ros.bench.shots import Image, Shot
from cacheinf_ros.bench.timing import summary, timed
from cacheinf_ros.cache_map import CacheMap
from cacheinf_ros.engine import Engine, EngineConfig, EngineResult
from cacheinf_ros.graph import Model
from cacheinf_ros.matching import MatchingConfig, MatchingStream


def run_camera_benchmark(
    model: Model, shots: Iterable[Shot], config: EngineConfig, matching: MatchingConfig, frames: int, count: int
) -> dict[str, Any]:
    """Measure the time for one frame of every camera; each camera shows the stream shifted around by another amount.

    For the measurement at once each engine has a thread of its own, as in a node, and the frames come at the same time.
    Matching is done before the clock starts.

    Args:
        frames: how many frames are counted, at most.
        count: the number of cameras.

    Raises:
        SourceError: there are not enough frames.
    """
    warm_up = warm_up_frames(config.device)
    images = [shot.image for shot in itertools.islice(shots, warm_up + frames)]
    check_count(len(images), warm_up + 1)
    cameras = range(count)
    together = [Engine(model, config, cameras=count) for _ in cameras]
    alone = [Engine(model, config) for _ in cameras]
    streams = [MatchingStream(matching) for _ in cameras]
    latency_ms: dict[str, list[float]] = {"at_once": [], "one_by_one": []}
    difference = 0.0
    with ThreadPoolExecutor(len(together)) as threads:

        def at_once(taken: Sequence[tuple[Image, CacheMap]]) -> list[EngineResult]:
            return list(threads.map(lambda engine, frame: engine.run(*frame), together, taken))

        def in_turn(taken: Sequence[tuple[Image, CacheMap]]) -> list[EngineResult]:
            return [engine.run(*frame) for engine, frame in zip(alone, taken, strict=True)]

        for index, image in enumerate(images):
            shifted = [np.roll(image, camera * image.shape[1] // count, axis=1) for camera in cameras]
            taken = [(each, stream.match(each)) for each, stream in zip(shifted, streams, strict=True)]
            ours, at_once_ms = timed(at_once, taken)
            theirs, in_turn_ms = timed(in_turn, taken)
            difference = max(difference, *map(_difference, ours, theirs))
            if index >= warm_up:
                latency_ms["at_once"].append(at_once_ms)
                latency_ms["one_by_one"].append(in_turn_ms)
    return {
        "model": model.name,
        "size": "x".join(map(str, model.input_size)),
        "frames": len(images) - warm_up,
        "cameras": count,
        "device": config.device,
        "kernels": together[0].kernel_name,
        "cache_mb": round(sum(engine.cache_bytes for engine in together) / 1e6, 1),
        "latency_ms": {name: summary(values) for name, values in latency_ms.items()},
        "largest_difference": difference,
    }


def _difference(ours: EngineResult, theirs: EngineResult) -> float:
    """Return the largest absolute difference of any value of any output."""
    return max(float(np.abs(value - theirs.outputs[name]).max(initial=0.0)) for name, value in ours.outputs.items())
