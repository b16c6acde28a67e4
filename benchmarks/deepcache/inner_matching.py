# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Figure 9: the time for matching the feature maps of inner layers too, instead of the frame alone."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.deepcache.clips import Clip
from benchmarks.deepcache.engines import NO_CACHE, PaperEngine
from benchmarks.deepcache.networks import load_network
from cacheinf_ros.engine.layout import Layout
from cacheinf_ros.graph.ir import Conv
from cacheinf_ros.matching import MatchingConfig, make_matcher, matching_for
from cacheinf_ros.mode import Mode

SHARES = (0.25, 0.5, 0.75, 1.0)
"""For each row of the figure, the share of the convolutions, from the first on, whose input is matched."""
_SMALLEST_BLOCK = 2
_PLANES = 3  # channels that the matcher looks at together


def inner_matching(network: str, clip: Clip, *, frames: int) -> list[dict[str, Any]]:
    """Measure the time of matching: of the frame alone, and of the first maps that convolutions read as well.

    Returns rows with milliseconds per frame, and their ratio to the frame's. Maps are quantised to bytes before the
    clock starts, and matched three channels at a time like the frame, with block size and search range scaled to the
    map.
    """
    engine = PaperEngine(NO_CACHE, load_network(network))
    maps = _read_by_convolutions(engine.engine.program.layout)
    config = matching_for(Mode.DEEPCACHE)
    took: dict[str, list[float]] = {name: [] for name in maps}
    before: dict[str, list[NDArray[np.uint8]]] = {}
    for image in clip.images(frames):
        engine.run(image)
        now = {name: _planes(engine, name) for name in maps}
        for name, planes in now.items():
            if before:
                took[name].append(_matched_ms(_scaled(config, planes[0], now[maps[0]][0]), before[name], planes))
        before = now
    means = [float(np.mean(took[name])) for name in maps]
    rows = [{"matched": "frame", "maps": 1, "ms": round(means[0], 3), "times": 1.0}]
    for share in SHARES:
        count = max(1, round(share * len(maps)))
        total = sum(means[:count])
        rows.append(
            {"matched": f"MIL-{share:.0%}", "maps": count, "ms": round(total, 3), "times": round(total / means[0], 1)}
        )
    return rows


def _read_by_convolutions(layout: Layout) -> list[str]:
    """List the maps that convolutions read, the model's input first, without maps that are too small for a block."""
    names = [o.inputs[0] for o in layout.operators if isinstance(o, Conv)]
    found = dict.fromkeys([layout.graph.input, *names])
    return [name for name in found if min(layout.spec(name).size) >= _SMALLEST_BLOCK]


def _planes(engine: PaperEngine, name: str) -> list[NDArray[np.uint8]]:
    """Return a map's channels in groups of three, as images uint8 [height, width, 3] stretched to the map's range."""
    values = engine.engine.program.maps[name].image[0].numpy()
    low, high = float(values.min()), float(values.max())
    levels = ((values - low) * (255 / max(high - low, 1e-9))).astype(np.uint8).transpose(1, 2, 0)
    missing = -levels.shape[2] % _PLANES
    levels = np.pad(levels, ((0, 0), (0, 0), (0, missing)))
    return [np.ascontiguousarray(levels[..., i : i + _PLANES]) for i in range(0, levels.shape[2], _PLANES)]


def _scaled(config: MatchingConfig, plane: NDArray[np.uint8], frame: NDArray[np.uint8]) -> MatchingConfig:
    factor = plane.shape[0] / frame.shape[0]
    block = max(_SMALLEST_BLOCK, round(config.block_size * factor))
    return config.changed(block_size=block, search_range=max(1, round(config.search_range * factor)))


def _matched_ms(config: MatchingConfig, before: list[NDArray[np.uint8]], now: list[NDArray[np.uint8]]) -> float:
    matcher = make_matcher(config)
    started = time.perf_counter_ns()
    for one, other in zip(before, now, strict=True):
        matcher.match(one, other)
    return (time.perf_counter_ns() - started) / 1e6
