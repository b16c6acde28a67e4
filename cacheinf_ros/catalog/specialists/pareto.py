# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Which specialised variants are ever worth having, found ahead of time: MCDNN's winnowing, section 5.2.1.

Every small trunk is tried on every n,p-dominance with classes drawn at random; the others, which no skew would choose,
need not be kept.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from cacheinf_ros.catalog.specialists.dominance import PAIRS, Dominance, Pair
from cacheinf_ros.catalog.specialists.retarget import generic_accuracy, retarget
from cacheinf_ros.catalog.specialists.specialist import Specialist
from cacheinf_ros.catalog.specialists.training_set import TrainingSet


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """One way to answer a stream of a certain skew.

    Attributes:
        name: of the small trunk, or of a model that is not specialised.
        accuracy: share of right answers, the generic model's help included.
        cost: per frame; any unit, the same for all: ms, J.
        is_specialised: whether there is a specialist in it.
    """

    name: str
    accuracy: float
    cost: float
    is_specialised: bool = True


def is_dominated(candidate: Candidate, others: Sequence[Candidate]) -> bool:
    """Whether another one is at least as accurate and as cheap, and better in one of both."""
    mine = candidate.accuracy, -candidate.cost
    theirs = ((other.accuracy, -other.cost) for other in others)
    return any(a >= mine[0] and c >= mine[1] and (a, c) != mine for a, c in theirs)


def pareto(candidates: Mapping[Pair, Sequence[Candidate]]) -> frozenset[str]:
    """Names of those that are on the front of accuracy and cost for at least one skew; the rest can never win."""
    return frozenset(
        candidate.name for each in candidates.values() for candidate in each if not is_dominated(candidate, each)
    )


def useful_pairs(candidates: Mapping[Pair, Sequence[Candidate]]) -> tuple[Pair, ...]:
    """The skews for which something specialised is on the front, in the order given."""
    return tuple(
        pair
        for pair, each in candidates.items()
        if any(candidate.is_specialised and not is_dominated(candidate, each) for candidate in each)
    )


def assess(
    trunks: Mapping[str, TrainingSet],
    trunk_ms: Mapping[str, float],
    generic_ms: float,
    *,
    pairs: Sequence[Pair] = PAIRS,
    draws: int = 3,
    seed: int = 0,
) -> dict[Pair, tuple[Candidate, ...]]:
    """Specialise every small trunk to every skew, and see what it is worth on samples that were held out.

    The generic model alone is among the candidates, as "". A trunk that no draw can specialise is not.

    Args:
        trunks: at least one training set by the trunk's name, all of the same samples.
        trunk_ms: what a frame takes with each.
        generic_ms: what it takes with the generic model.
        draws: of dominating classes, for each skew; all trunks get the same.
    """
    classes = next(iter(trunks.values())).classes
    rng = np.random.default_rng(seed)
    found: dict[Pair, tuple[Candidate, ...]] = {}
    for pair in (pair for pair in pairs if pair.n < classes):
        drawn = [_drawn(pair, classes, rng) for _ in range(draws)]
        alone = [generic_accuracy(next(iter(trunks.values())), each) for each in drawn]
        generic = Candidate(name="", accuracy=_mean(alone), cost=generic_ms, is_specialised=False)
        tried = (_tried(name, trunks[name], drawn, trunk_ms[name], generic) for name in trunks)
        found[pair] = (generic, *(candidate for candidate in tried if candidate is not None))
    return found


def _drawn(pair: Pair, classes: int, rng: np.random.Generator) -> Dominance:
    chosen = tuple(int(c) for c in rng.permutation(classes)[: pair.n])
    return Dominance(pair=pair, classes=chosen, shares=(pair.p / pair.n,) * pair.n)


def _tried(
    name: str, samples: TrainingSet, drawn: Sequence[Dominance], small_ms: float, generic: Candidate
) -> Candidate | None:
    """The mean over the draws; one that gets no specialist is answered by the generic model."""
    outcomes = [retarget(samples, each, small_ms=small_ms, generic_ms=generic.cost) for each in drawn]
    made = [outcome.expected if isinstance(outcome, Specialist) else None for outcome in outcomes]
    if not any(made):
        return None
    gained = [expected.accuracy - expected.generic_accuracy if expected else 0.0 for expected in made]
    costs = [expected.latency_ms if expected else generic.cost for expected in made]
    return Candidate(name=name, accuracy=generic.accuracy + _mean(gained), cost=_mean(costs))


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
