# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Chooses once which maps to keep, and keeps the choice for the next start."""

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
_SLOWER = 1.1  # than with everything kept: what a frame may take at most where no budget is given
_SEARCH_S = 10.0
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Choices:
    """What each method found, and what it costs.

    Attributes:
        everything: with everything kept.
        found: by method; the best of them is used.
    """

    everything: Assessment
    found: dict[str, tuple[Dropped, Assessment]]
    goal: Goal

    @property
    def best(self) -> Dropped:
        """What to drop."""
        return min(self.found.values(), key=lambda choice: self.goal(choice[1]))[0]


def search_all(assess: Assessor, budget_mb: float | None, *, time_limit_s: float) -> Choices:
    """Try every method.

    Args:
        budget_mb: of the cache, 10**6 bytes; None: the smallest that is hardly slower.
        time_limit_s: of each method.
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
    """The maps to drop within the configured budget, if there is one: as chosen before, or chosen now and stored."""
    path = measured_file("merging", model, config, f"{config.cache_budget_mb:g}-{_VERSION}.json")
    file = KeptFile(path=path, what="choice of caches", remedy="choosing")
    assess = Assessor(layout, cost)
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
