# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Chooses which maps to keep between frames, and stores the choice for the next start."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass

from cacheinf_ros.disk_cache import KeptFile
from cacheinf_ros.engine.cost import CostModel
from cacheinf_ros.engine.engine_config import EngineConfig
from cacheinf_ros.engine.layout import Layout
from cacheinf_ros.engine.measured_file import measured_file
from cacheinf_ros.engine.rematerialisation.assess import Assessment, Assessor
from cacheinf_ros.engine.rematerialisation.map_search import (
    Dropped,
    Goal,
    Smallest,
    Within,
    anneal,
    evolve,
    exhaustive,
    from_nothing,
    greedy,
)
from cacheinf_ros.graph import Model

_VERSION = 3  # of the file's content, and of what it depends on
_SLOWER = 1.1  # without a budget, a frame may take at most this factor of its time with everything kept
_SEARCH_S = 10.0
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Choices:
    """What each search method found, and what it costs.

    Attributes:
        everything: the assessment of keeping everything.
        found: by method, the maps to drop and the assessment of that; the best choice is used.
        goal: what choices are compared by.
    """

    everything: Assessment
    found: dict[str, tuple[Dropped, Assessment]]
    goal: Goal

    @property
    def best(self) -> Dropped:
        """The maps to drop in the best choice of all methods."""
        return min(self.found.values(), key=lambda choice: self.goal(choice[1]))[0]


def search_all(assess: Assessor, budget_mb: float | None, *, time_limit_s: float) -> Choices:
    """Try every search method.

    Args:
        assess: predicts the cost of choices.
        budget_mb: the size of the cache in units of 10**6 bytes; None: the least memory with which a frame takes at
            most 10 % longer than with everything kept.
        time_limit_s: the most seconds that each method takes, except an exhaustive search.
    """
    everything = assess(frozenset())
    goal: Goal
    if budget_mb is None:
        goal = Smallest(microseconds=_SLOWER * everything.microseconds, bytes=everything.bytes)
    else:
        goal = Within(budget=int(budget_mb * 1e6), microseconds=everything.microseconds)
    found = {"greedy": greedy(assess, goal, time_limit_s=time_limit_s)}
    found["from_nothing"] = from_nothing(assess, goal, time_limit_s=time_limit_s)
    found["differential_evolution"] = evolve(assess, goal, found["greedy"], time_limit_s=time_limit_s)
    best = exhaustive(assess, goal)
    if best is not None:
        found["exhaustive"] = best
    else:
        start = min(found.values(), key=lambda dropped: goal(assess(dropped)))
        found["annealing"] = anneal(assess, goal, start, time_limit_s=time_limit_s)
    return Choices(
        everything=everything, found={name: (dropped, assess(dropped)) for name, dropped in found.items()}, goal=goal
    )


def load_or_choose(layout: Layout, cost: CostModel, model: Model, config: EngineConfig) -> Dropped:
    """Return the maps to drop within the configured budget, if any: as stored, or chosen now and then stored."""
    path = measured_file("merging", model, config, f"{config.cache_budget_mb:g}-{_VERSION}.json")
    file = KeptFile(path=path, what="choice of caches", remedy="choosing")
    assess = Assessor(layout, cost)
    if config.cache_budget_mb >= 0 and assess.fixed_bytes:
        _log.warning(
            "model %s keeps %.1f MB of feature maps beside cache.budget_mb: those of operators that torch computes",
            model.name, assess.fixed_bytes / 1e6,
        )  # fmt: skip
    stored = file.read_json(lambda content: _parsed(content, frozenset(assess.names)))
    if stored is not None:
        return stored
    _log.info("choosing which feature maps of %s to keep between frames", model.name)
    started = time.perf_counter()
    budget_mb = config.cache_budget_mb if config.cache_budget_mb >= 0 else None
    choices = search_all(assess, budget_mb, time_limit_s=_SEARCH_S)
    best, everything = assess(choices.best), choices.everything
    _log.info(
        "model %s keeps %.0f MB of %.0f MB between frames, %.0f MB live within one; predicted time %+.0f %%; "
        "searched for %.0f s",
        model.name, best.cache_bytes / 1e6, everything.cache_bytes / 1e6, best.arena_bytes / 1e6,
        100 * (best.microseconds / everything.microseconds - 1), time.perf_counter() - started,
    )  # fmt: skip
    file.write_json(sorted(choices.best))
    return choices.best


def _parsed(content: list[str], names: frozenset[str]) -> Dropped:
    dropped = frozenset(content)
    if not dropped <= names:
        raise ValueError("it names maps that the model does not have")
    return dropped
