# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Plans for future requests, worked out by hand."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest

from cacheinf_ros.catalog.scheduling.allocation import RequestGroup, allocate
from cacheinf_ros.catalog.scheduling.budgets import Account
from cacheinf_ros.catalog.scheduling.decision import options_of
from cacheinf_ros.catalog.scheduling.offer import Offer
from cacheinf_ros.catalog.variant import Catalog, Cost, Place, Variant

MB = 10**6


def group(*variants: tuple[float, float], memory_mb: Sequence[int] = (), load_j: float = 0.0) -> RequestGroup:
    """Return a group of 100 requests; variants are (accuracy, J)."""
    sizes = memory_mb or [0] * len(variants)
    catalog = Catalog(
        model="m",
        variants=tuple(
            Variant(
                name=str(i),
                accuracy=accuracy,
                costs={Place.DEVICE: Cost(energy_j=energy_j, memory_bytes=size * MB, load_energy_j=load_j)},
            )
            for i, ((accuracy, energy_j), size) in enumerate(zip(variants, sizes, strict=True))
        ),
    )
    offers = [Offer(option=option, cost=option.cost, load=(load_j, 0.0)) for option in options_of(catalog)]
    return RequestGroup(requests=100.0, offers=offers, phase=0, begun_share=1.0, present_share=1.0)


def shares(*groups: RequestGroup, energy_j: float, cache_mb: int = 1000) -> list[list[float]]:
    found = allocate(groups, Account(energy_j=energy_j, money=math.inf), cache_mb * MB)
    return [each.offers.tolist() for each in found]


A, B = group((0.9, 2.0), (0.6, 1.0)), group((0.8, 5.0), (0.7, 1.0))


@pytest.mark.parametrize(
    ("energy_j", "first", "second"),
    [
        (200.0, [0.0, 1.0], [0.0, 1.0]),  # all that the cheapest take
        (250.0, [0.5, 0.5], [0.0, 1.0]),  # 50 J more buy 0.3 each of the first, 0.1 for 4 J of the second
        (300.0, [1.0, 0.0], [0.0, 1.0]),
        (500.0, [1.0, 0.0], [0.5, 0.5]),
        (100.0, [0.0, 0.0], [0.0, 1.0]),  # half are served: 0.7 for 1 J, not 0.6
    ],
)
def test_what_is_left_is_spent_where_it_buys_most(energy_j: float, first: list[float], second: list[float]) -> None:
    found = shares(A, B, energy_j=energy_j)
    assert found[0] == pytest.approx(first) and found[1] == pytest.approx(second)


def test_loading_counts_once() -> None:
    """Loading takes 400 J more once in 100 requests, so 6 J per request serve all of them, and 3 J half."""
    assert shares(group((0.9, 2.0), load_j=400.0), energy_j=600.0)[0] == pytest.approx([1.0])
    assert shares(group((0.9, 2.0), load_j=400.0), energy_j=300.0)[0] == pytest.approx([0.5])


def test_without_a_limit_the_most_accurate_serve() -> None:
    assert shares(A, B, energy_j=math.inf) == [[1.0, 0.0], [1.0, 0.0]]


def test_memory_is_kept_for_what_loses_most_without_it() -> None:
    """100 MB hold one large variant, or a small one with each other; the budget has nothing left for paging.

    Paging would take 1 J for each request.
    """
    both = [group((0.9, 1.0), (accuracy, 1.0), memory_mb=(60, 40), load_j=1.0) for accuracy in (0.5, 0.8)]
    found = allocate(both, Account(energy_j=202.0, money=math.inf), 100 * MB)
    assert found[0].offers.tolist() == pytest.approx([1.0, 0.0])
    assert found[1].offers.tolist() == pytest.approx([0.0, 1.0])
    assert [each.kept for each in found] == pytest.approx([1.0, 1.0])
