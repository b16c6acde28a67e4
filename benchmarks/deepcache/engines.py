# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The three engines that the paper compares: no cache, DeepMon's, and its own."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from benchmarks.matchers import COMPARATORS
from cacheinf_ros.cache_map import CacheMap
from cacheinf_ros.engine import Engine, EngineConfig, Mode, Preprocessor
from cacheinf_ros.graph import Model
from cacheinf_ros.matching import MatchingConfig, MatchingStream, matching_for
from cacheinf_ros.matching.matching_config import DEEPCACHE_EXPIRY

Image = NDArray[np.uint8]
NO_CACHE, DEEPMON, DEEPCACHE = "no_cache", "deepmon", "deepcache"


WARM_UP = 2
"""Frames that are not counted: the first fills the cache, and memory is touched for the first time."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Answer:
    """An engine's result for a frame.

    Attributes:
        outputs: the model's outputs, flattened and concatenated.
        matching_ms, total_ms: time for matching and for all; matching is part of the total.
        reused: share of the frame's blocks that was reused.
        layer_us: microseconds of each operator, by the name of its output.
    """

    outputs: NDArray[np.float32]
    matching_ms: float
    total_ms: float
    reused: float
    layer_us: Mapping[str, float]


class PaperEngine:
    """A model with one of the paper's caches.

    Attributes:
        engine: the package's engine, without what the paper does not have: it never falls back to dense execution.
    """

    def __init__(self, name: str, model: Model, matching: MatchingConfig | None = None, *, threads: int = 1) -> None:
        """Compile the model.

        Args:
            name: :data:`NO_CACHE`, :data:`DEEPMON` or :data:`DEEPCACHE`.
            matching: threshold, block size, expiry and so on; None: the paper's settings.
        """
        matching = matching or matching_for(Mode.DEEPCACHE)
        mode = Mode.DENSE if name == NO_CACHE else Mode.DEEPCACHE
        self.engine = Engine(model, EngineConfig(mode=mode, threads=threads, dense_fallback=False))
        self._resize = Preprocessor(model.card).resize
        self._find: Callable[[Image], CacheMap | None] = _nothing
        self._forget: Callable[[str], None] = _nothing
        if name == DEEPMON:
            same_place = _SamePlace(self.engine, matching)
            self._find, self._forget = same_place.find, same_place.reset
        elif name == DEEPCACHE:
            stream = MatchingStream(matching)
            self._find, self._forget = stream.match, stream.reset

    def begin(self) -> None:
        """Forget the frames so far, to begin another clip."""
        self._forget("another clip")
        self.engine.reset()

    def run(self, image: Image) -> Answer:
        """Run the model on a frame, which is resized to the model's input before the clock starts."""
        image = self._resize(image)
        started = time.perf_counter_ns()
        cache_map = self._find(image)
        matched = time.perf_counter_ns()
        result = self.engine.run(image, cache_map)
        ended = time.perf_counter_ns()
        return Answer(
            outputs=np.concatenate([np.ravel(output) for output in result.outputs.values()]).astype(np.float32),
            matching_ms=(matched - started) / 1e6,
            total_ms=(ended - started) / 1e6,
            reused=result.reuse_ratio,
            layer_us=self.engine.program.profile.microseconds,
        )


class _SamePlace:
    """DeepMon's cache: it reuses blocks at the same place whose histograms are alike, until it expires."""

    def __init__(self, engine: Engine, matching: MatchingConfig) -> None:
        self._engine, self._expiry = engine, matching.expiry or DEEPCACHE_EXPIRY
        self._matcher = COMPARATORS["deepmon"](matching)
        self._age = self._expiry

    def reset(self, _: str) -> None:
        self._age = self._expiry

    def find(self, image: Image) -> CacheMap | None:
        if self._age == self._expiry:
            self._age = 0
            return None
        self._age += 1
        return self._matcher.match(self._engine.composed, image)


def _nothing(_: object) -> None:
    return None
