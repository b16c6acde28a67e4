# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Tests of which variants can ever win."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from skewed import training_set

from cacheinf_ros.catalog.specialists.dominance import Pair
from cacheinf_ros.catalog.specialists.pareto import Candidate, assess, is_dominated, pareto, useful_pairs

SEVEN, FOURTEEN = Pair(n=7, p=0.9), Pair(n=14, p=0.6)


def _candidate(name: str, accuracy: float, cost: float) -> Candidate:
    return Candidate(name=name, accuracy=accuracy, cost=cost, is_specialised=bool(name))


def test_by_hand() -> None:
    """c is always behind a; b wins where few classes dominate; with 14 classes nothing beats the model alone."""
    candidates = {
        SEVEN: [_candidate("", 0.9, 8), _candidate("a", 0.9, 4), _candidate("b", 0.92, 5), _candidate("c", 0.9, 5)],
        FOURTEEN: [_candidate("", 0.9, 8), _candidate("a", 0.9, 9), _candidate("b", 0.9, 8.5)],
    }
    assert pareto(candidates) == {"a", "b", ""}
    assert useful_pairs(candidates) == (SEVEN,)


def test_equals_do_not_dominate_each_other() -> None:
    twins = [_candidate("a", 0.9, 4), _candidate("b", 0.9, 4)]
    assert not any(is_dominated(each, twins) for each in twins)
    assert pareto({SEVEN: twins}) == {"a", "b"}


@given(rows=st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=1, max_size=12))
def test_what_is_dropped_is_beaten_by_what_is_kept(rows: list[tuple[int, int]]) -> None:
    candidates = [_candidate(str(i), float(a), float(c)) for i, (a, c) in enumerate(rows)]
    kept = [c for c in candidates if c.name in pareto({SEVEN: candidates})]
    assert kept
    for dropped in (c for c in candidates if c not in kept):
        assert any(k.accuracy >= dropped.accuracy and k.cost <= dropped.cost for k in kept)


def test_a_blurred_trunk_can_never_win() -> None:
    """A blurred trunk takes the same time but tells classes apart less well; a slow one gives nothing at all."""
    clear, blurred = training_set(noise=0.5), training_set(noise=1.2)
    assert np.array_equal(clear.labels, blurred.labels)
    found = assess(
        {"clear": clear, "blurred": blurred, "slow": clear},
        {"clear": 2.0, "blurred": 2.0, "slow": 9.0},
        8.0,
        pairs=[SEVEN, FOURTEEN, Pair(n=21, p=0.9)],
        draws=2,
    )
    assert list(found) == [SEVEN, FOURTEEN]  # 21 are more classes than there are
    assert pareto(found) >= {"clear"} and "slow" not in pareto(found)
    clear_cost, blurred_cost = ({c.name: c.cost for c in found[SEVEN]}[name] for name in ("clear", "blurred"))
    assert clear_cost < blurred_cost < 8.0
    assert clear_cost == pytest.approx(2 + 8 * 0.1, abs=0.5)
    for candidates in found.values():
        assert all(c.accuracy >= candidates[0].accuracy - 1e-9 for c in candidates)
