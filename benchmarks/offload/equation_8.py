# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Chooses which maps to keep by CacheInf's equation 8 as it is written, to compare with our choice.

The results are the memory of tables 3 and 6.

Equation 8 adds up w + 1 = 11 shares of changed pixels, and divides by w. Its first term is the engine's own
(:class:`.assess.Assessment`): the mean time over ten shares; with the eleventh, zero, no operator takes time. The
second term, U_sum, is the time for updating the kept maps: the paper transforms each map as a whole after every frame,
whatever has changed, so that it counts eleven times. Our engine updates maps in place by the kernels that compute them:
there U is 0, and memory is bounded instead, by the least that 10 % more time allows.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from cacheinf_ros.engine import Engine, EngineConfig
from cacheinf_ros.engine.rematerialisation.assess import CASES, Assessment, Assessor
from cacheinf_ros.engine.rematerialisation.map_choice import search_all
from cacheinf_ros.engine.rematerialisation.map_search import Goal, evolve, greedy
from cacheinf_ros.graph import load_model
from cacheinf_ros.graph.weights import weight_bytes

_COPIED = 16 * 2**20  # bytes, more than a processor's cache holds
_SEARCH_S = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Equation8(Goal):
    """The goal of equation 8: the least time of a frame, with updating all kept maps, and no limit of memory.

    Attributes:
        bytes_per_us: the rate at which a kept map is transformed.
        microseconds: the time with everything kept, without updates.
    """

    bytes_per_us: float
    microseconds: float

    def worth(self, found: Assessment) -> float:
        """Return equation 8 divided by the time with everything kept."""
        updates = (CASES + 1) / CASES * found.cache_bytes / self.bytes_per_us
        return (found.microseconds + updates) / self.microseconds

    def excess(self, found: Assessment) -> float:
        """Return 0: nothing is promised."""
        return 0.0

    def balance(self, found: Assessment) -> float:
        """Return the same value as :meth:`worth`."""
        return self.worth(found)


def memory_of(reference: str, size: tuple[int, int], progress: Callable[[str], None]) -> dict[str, float]:
    """Compute a network's memory, weights included, MB: nothing kept, everything, by our choice, and by equation 8."""
    progress(f"{reference}: measuring its operators")
    engine = Engine(load_model(reference, input_size=size), EngineConfig(threads=1))
    weights, assess = weight_bytes(engine.model.graph), Assessor(engine.program.layout, engine.cost)
    everything = assess(frozenset())
    progress(f"{reference}: choosing maps to keep")
    goal = Equation8(bytes_per_us=_copying(), microseconds=everything.microseconds)
    start = greedy(assess, goal, time_limit_s=_SEARCH_S)
    written = assess(evolve(assess, goal, start, time_limit_s=_SEARCH_S))
    ours = assess(search_all(assess, None, time_limit_s=_SEARCH_S).best)
    found = {"no cache": assess.dense, "cache all": everything, "ours": ours, "equation 8": written}
    return {name: (weights + each.bytes) / 1e6 for name, each in found.items()}


def memory_row(published: tuple[float, float, float], found: Mapping[str, float]) -> dict[str, Any]:
    """Put the paper's three columns next to ours, with equation 8 as it is written; ``found`` may be empty."""
    columns = zip(("no cache", "cache all", "ours"), published, strict=True)
    return {name: {"paper": theirs, "ours": found.get(name)} for name, theirs in columns} | {
        "by equation 8": found.get("equation 8")
    }


def _copying() -> float:
    """Measure how many bytes per microsecond are copied."""
    source, target = np.ones(_COPIED, np.uint8), np.empty(_COPIED, np.uint8)
    took = []
    for _ in range(5):
        started = time.perf_counter()
        np.copyto(target, source)
        took.append(time.perf_counter() - started)
    return _COPIED / min(took) / 1e6
