# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Selection, ahead of time, of the specialised variants that are ever worth having: MCDNN, section 5.2.1.

Every small trunk is tried on every n,p-dominance with classes drawn at random; trunks that no skew would choose need
not be kept.
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
    """A way to answer a stream of a certain skew.

    Attributes:
        name: name of the small trunk, or of a model that is not specialised.
        accuracy: share of right answers, those of the generic model included.
        cost: cost per frame, in any unit that is the same for all, such as ms or J.
        is_specialised: whether a specialist is used.
    """

    name: str
    accuracy: float
    cost: float
    is_specialised: bool = True


def is_dominated(candidate: Candidate, others: Sequence[Candidate]) -> bool:
    """Tell whether another candidate is at least as accurate and as cheap, and better in one of the two."""
    mine = candidate.accuracy, -candidate.cost
    theirs = ((other.accuracy, -other.cost) for other in others)
    return any(a >= mine[0] and c >= mine[1] and (a, c) != mine for a, c in theirs)


def pareto(candidates: Mapping[Pair, Sequence[Candidate]]) -> frozenset[str]:
    """Return the names of candidates on the Pareto front for at least one skew; the rest can never win."""
    return frozenset(
        candidate.name for each in candidates.values() for candidate in each if not is_dominated(candidate, each)
    )


def useful_pairs(candidates: Mapping[Pair, Sequence[Candidate]]) -> tuple[Pair, ...]:
    """Return the skews for which a specialised candidate is on the front, in the order given."""
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
    """Specialise every small trunk to every skew, and evaluate it on held-out samples.

    The generic model alone is among the candidates, as "". A trunk that can be specialised to no draw is left out.

    Args:
        trunks: at least one training set, by the trunk's name, all of the same samples.
        trunk_ms: time per frame of each trunk.
        generic_ms: time per frame of the generic model.
        draws: number of draws of dominating classes for each skew; all trunks get the same draws.
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
    """Average a trunk over the draws; the generic model answers a draw for which no specialist is made."""
    outcomes = [retarget(samples, each, small_ms=small_ms, generic_ms=generic.cost) for each in drawn]
    made = [outcome.expected if isinstance(outcome, Specialist) else None for outcome in outcomes]
    if not any(made):
        return None
    gained = [expected.accuracy - expected.generic_accuracy if expected else 0.0 for expected in made]
    costs = [expected.latency_ms if expected else generic.cost for expected in made]
    return Candidate(name=name, accuracy=generic.accuracy + _mean(gained), cost=_mean(costs))


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
