# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Measures how long each matching algorithm takes and how much it finds to reuse (DeepCache's Table 4)."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice, pairwise
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from cacheinf_ros.errors import MatchingError
from cacheinf_ros.matching import Matcher, MatcherName, MatchingConfig, make_matcher

WARM_UP = 2
"""The number of pairs matched before the clock counts: memory and caches are touched for the first time."""
Make = Callable[[MatchingConfig], Matcher]


def _make(name: MatcherName, config: MatchingConfig) -> Matcher:
    return make_matcher(config.changed(matcher=name))


INSTALLED: Mapping[str, Make] = {name.value: partial(_make, name) for name in MatcherName}
"""Factories of the matchers that the nodes offer, by name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Contender:
    matcher: Matcher
    latencies_ms: list[float] = field(default_factory=list)
    match_ratios: list[float] = field(default_factory=list)

    def measure(self, reference: NDArray[np.uint8], frame: NDArray[np.uint8]) -> None:
        """Match one pair and record the time, on one thread: the matchers start no others."""
        start = time.perf_counter_ns()
        cache_map = self.matcher.match(reference, frame)
        self.latencies_ms.append((time.perf_counter_ns() - start) / 1e6)
        self.match_ratios.append(cache_map.reuse_ratio)

    def report(self) -> dict[str, dict[str, float]]:
        p50, p95 = np.percentile(self.latencies_ms, [50, 95])
        return {
            "latency_ms": {
                "p50": float(p50),
                "p95": float(p95),
                "mean": float(np.mean(self.latencies_ms)),
                "std": float(np.std(self.latencies_ms)),
            },
            "match_ratio": {"mean": float(np.mean(self.match_ratios))},
        }


def run_matcher_benchmark(
    images: Iterable[NDArray[np.uint8]],
    *,
    sizes: Sequence[tuple[int, int]] = ((227, 227), (480, 640)),
    matchers: Mapping[str, Make] = INSTALLED,
    frames: int = 60,
    config: MatchingConfig | None = None,
) -> dict[str, Any]:
    """Match each frame with the one before it, with every algorithm in turn, so that all see the same machine.

    Args:
        images: uint8 [height, width, 3], in order; an endless source is fine.
        sizes: (height, width) that the frames are resized to.
        matchers: factories of the algorithms, by name; the order in which they run changes from frame to frame.
        frames: how many frames to use at most.
        config: threshold, block size and so on; its ``matcher`` is not used.

    Returns:
        ``{"frames": measured per algorithm, "threads": 1, "sizes": {"480x640": {"diamond_optimised": {"latency_ms":
        {"p50", "p95", "mean", "std"}, "match_ratio": {"mean"}}, ...}, ...}}``.

    Raises:
        MatchingError: there are not two frames to compare.
    """
    config = config or MatchingConfig()
    pictures = list(islice(images, frames))
    if len(pictures) < 2:
        raise MatchingError(f"the benchmark compares frames: give it at least 2, not {len(pictures)}")
    results = {f"{height}x{width}": _run(_resized(pictures, (height, width)), matchers, config)
               for height, width in sizes}  # fmt: skip
    return {"frames": len(pictures) - 1, "threads": 1, "sizes": results}


def _resized(images: Iterable[NDArray[np.uint8]], size: tuple[int, int]) -> list[NDArray[np.uint8]]:
    return [np.asarray(cv2.resize(image, size[::-1], interpolation=cv2.INTER_AREA), np.uint8) for image in images]


def _run(
    images: Sequence[NDArray[np.uint8]], matchers: Mapping[str, Make], config: MatchingConfig
) -> dict[str, dict[str, dict[str, float]]]:
    contenders = {name: _Contender(matcher=make(config)) for name, make in matchers.items()}
    for reference, frame in islice(pairwise(images), WARM_UP):
        for contender in contenders.values():
            contender.matcher.match(reference, frame)
    # in another order each time: the matcher that ran just before decides how much of the images is in the CPU cache
    order, names = np.random.default_rng(0), list(contenders)
    for reference, frame in pairwise(images):
        for index in order.permutation(len(names)):
            contenders[names[index]].measure(reference, frame)
    return {name: contender.report() for name, contender in contenders.items()}
