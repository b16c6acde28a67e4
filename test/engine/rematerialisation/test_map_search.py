# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Tests of the search for the maps to keep."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lowered import graph_of
from networks.random_models import random_model, seeds
from torch import nn

from cacheinf_ros.engine.cost import CostModel, Curve
from cacheinf_ros.engine.cost.model import SHARES
from cacheinf_ros.engine.layout import Layout, lay_out
from cacheinf_ros.engine.rematerialisation import Assessor, search_all


def linear_cost(layout: Layout, seed: int | None = None) -> CostModel:
    """Return a cost model in which each operator takes 100 us for all its pixels, and filling sets takes nothing.

    With a seed the operators' times are random.
    """
    rng = np.random.default_rng(seed)
    times = {o.output: 100.0 if seed is None else rng.uniform(1, 100) for o in layout.operators}
    return CostModel(curves={name: Curve(rows=tuple(time * s for s in SHARES)) for name, time in times.items()})


def test_equation_8_by_hand() -> None:
    """Two windows of 3 over 20 x 20 pixels with 4 channels between them, worked out by hand.

    The sides of a rectangle with 1, 0.9, ..., 0.1 of the pixels are 20, 19, 18, 17, 15, 14, 13, 11, 9 and 6. They grow
    by 2, which makes 20, 20, 20, 19, 17, 16, 15, 13, 11 and 8, or 2685 pixels, and by 4: four times 20, 19, 18, 17, 15,
    13 and 10, or 3068. Where the map between is dropped they grow by 6: six times 20, 19, 17, 15 and 12, or 3419.
    An operator takes 100 us for 400 pixels, and ten shares are averaged.
    """
    graph = graph_of(nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.Conv2d(4, 2, 3, padding=1)), (20, 20))
    layout = lay_out(graph)
    assess = Assessor(layout, linear_cost(layout))
    (name,) = assess.names
    kept, dropped = assess(frozenset()), assess(frozenset([name]))
    assert kept.microseconds == pytest.approx(67.125 + 76.7)
    assert dropped.microseconds == pytest.approx(85.475 + 76.7)
    assert (kept.cache_bytes, kept.arena_bytes) == (20 * 20 * 4 * 4, 0)
    assert (dropped.cache_bytes, dropped.arena_bytes) == (0, 20 * 20 * 4 * 4)


@settings(max_examples=10)
@given(seed=seeds, share=st.sampled_from([0.0, 0.3, 0.7]))
def test_budgets_are_respected_and_no_method_beats_trying_everything(seed: int, share: float) -> None:
    layout = lay_out(random_model(seed).graph)
    assess = Assessor(layout, linear_cost(layout, seed))
    everything = assess(frozenset())
    budget_mb = share * everything.cache_bytes / 1e6
    for goal_mb in (budget_mb, None):
        choices = search_all(assess, goal_mb, time_limit_s=0.2)
        worth = {name: choices.goal(found) for name, (_, found) in choices.found.items()}
        assert worth["differential_evolution"] <= worth["greedy"]
        assert worth.get("annealing", 0.0) <= worth["differential_evolution"]
        assert worth.get("exhaustive", 0.0) <= min(worth.values())
        best = assess(choices.best)
        if goal_mb is None:
            assert best.microseconds <= 1.1 * everything.microseconds
            assert best.bytes <= everything.bytes
        else:
            assert best.cache_bytes <= goal_mb * 1e6


def test_maps_between_pointwise_operators_cost_nothing_to_drop() -> None:
    """Pointwise operators need no halo, so that no more is computed than before."""
    layers = nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 32, 1), nn.Conv2d(32, 8, 1), nn.Conv2d(8, 2, 3, padding=1)
    )
    layout = lay_out(graph_of(layers, (48, 64)))
    assess = Assessor(layout, linear_cost(layout))
    first, wide, narrow = assess.names
    choices, free = search_all(assess, None, time_limit_s=0.5), assess(frozenset([first, wide]))
    assert free.microseconds == pytest.approx(choices.everything.microseconds)
    assert assess(frozenset([narrow])).microseconds > choices.everything.microseconds
    assert assess(choices.best).bytes < free.bytes == choices.everything.bytes, "the arena holds both at once"
