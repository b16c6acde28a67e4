# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Assigns shares of the coming requests to options by a linear programme, after section 4.2 of MCDNN.

It keeps the objective of equations 1 to 6, both budgets, the memory and the latency (options that are too slow are not
offered). Requests of one model under the same conditions form one group, so that the programme's size does not depend
on how many there are, and the relaxation is exact except for a few requests: a vertex has at most one mixed group for
each budget and for the memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array, vstack

from cacheinf_ros.catalog.scheduling.budgets import Account
from cacheinf_ros.catalog.scheduling.loaded_variants import device_bytes
from cacheinf_ros.catalog.scheduling.offer import Offer

_SPARING = 5e-4  # accuracy that is worth as much as a request's average share of the budget
_SERVED = 1.0  # accuracy that is worth as much as serving a request at all
_ORDER = 1e-6  # accuracy that breaks ties between equal options, in favour of the first
_SCALE = 1e3  # factor of the objective, as the solver's tolerances are absolute

Numbers = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestGroup:
    """Requests of one model that are expected under the same conditions.

    Attributes:
        requests: number of requests, above 0.
        offers: options that serve them in time, with the cost of loading those that are not in the cache.
        phase: groups of the same phase need their memory at the same time.
        begun_share: share of the requests that follow one for another model; where no memory is kept for this model, it
            is loaded for each of them.
        present_share: share of the phase's requests that are this group's; for this share of the time the model needs
            memory that is not kept.
    """

    requests: float
    offers: Sequence[Offer]
    phase: int
    begun_share: float
    present_share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Shares:
    """How a group's requests are served.

    Attributes:
        offers: float64 [offers], share of the requests that each offer serves; their sum is at most 1.
        kept: share of the requests during which device memory is kept for the model.
    """

    offers: Numbers
    kept: float


def allocate(groups: Sequence[RequestGroup], account: Account, cache_bytes: int) -> list[Shares]:
    """Serve all groups as accurately as the budgets allow; of equally accurate plans the cheaper one is chosen.

    Args:
        account: the budgets that are left; each may be infinite.
        cache_bytes: size of the device's memory.
    """
    columns = _columns(groups, cache_bytes)
    total = sum(group.requests for group in groups)
    weight = np.array([group.requests for group in groups])[columns.group] / total
    energy_j, money = columns.energy_j * weight * total, columns.money * weight * total
    worth = _SERVED + columns.accuracy - _ORDER * np.arange(len(columns.group))
    rows, limits = [_group_rows(columns.group, len(groups))], [np.ones(len(groups))]
    for used, left in ((energy_j, account.energy_j), (money, account.money)):
        if left < np.inf and used.any():
            left = max(left, 0.0)
            worth = worth - _SPARING * used / weight / max(left, 1e-12) if left else worth
            scale = max(left, float(used.max()))
            rows.append(coo_array(used[None] / scale))
            limits.append(np.array([left / scale]))
    if columns.is_tight:
        rows.append(columns.memory)
        limits.append(np.ones(columns.memory.shape[0]))
    from scipy.optimize import linprog  # imported here, as it is slow and servers do not plan

    solved = linprog(
        -_SCALE * weight * worth,
        A_ub=vstack(rows),
        b_ub=np.concatenate(limits),
        bounds=(0, 1),
        method="highs",
    )
    found = np.zeros(len(columns.group)) if solved.x is None else np.asarray(solved.x, np.float64)
    return _shares(groups, columns, found)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Columns:
    """The programme's columns: an offer of a group, with its memory kept, or loaded anew after other models' requests.

    Attributes:
        group, offer: int64 [columns].
        is_kept: bool [columns], whether device memory is kept for the offer; False for an offer that needs none.
        accuracy, energy_j, money: float64 [columns], for one request.
        memory: [phases, columns], share of the device's memory that is needed.
        is_tight: whether the memory can be a binding constraint.
    """

    group: NDArray[np.int64]
    offer: NDArray[np.int64]
    is_kept: NDArray[np.bool_]
    accuracy: Numbers
    energy_j: Numbers
    money: Numbers
    memory: coo_array
    is_tight: bool


def _columns(groups: Sequence[RequestGroup], cache_bytes: int) -> _Columns:
    offers, counts = [offer for group in groups for offer in group.offers], [len(group.offers) for group in groups]
    group, costs = np.repeat(np.arange(len(groups)), counts), [offer.cost for offer in offers]
    size = np.array([device_bytes(offer.option) for offer in offers])
    phase = np.array([each.phase for each in groups])
    largest = np.zeros(len(groups), np.int64)
    np.maximum.at(largest, group, size)
    is_tight = bool((np.bincount(phase, largest) > cache_bytes).any())
    # each offer has a column with its memory kept and, where memory is short, one in which it is loaded anew
    is_there = np.stack([np.ones(len(offers), bool), (size > 0) & is_tight], axis=1)

    def columns(kept: NDArray[Any], anew: NDArray[Any] | None = None) -> NDArray[Any]:
        return np.stack([kept, kept if anew is None else anew], axis=1)[is_there]

    def with_loading(each: list[float], loading: list[float], first: list[float]) -> Numbers:
        one = np.array(each)
        requests = np.maximum([each.requests for each in groups], 1.0)[group]
        again = np.array([each.begun_share for each in groups])[group]
        return columns(one + np.array(first) / requests, one + again * np.array(loading))

    share = size / max(cache_bytes, 1)
    present = np.array([each.present_share for each in groups])[group]
    index, needed = columns(group), columns(share, share * present)
    return _Columns(
        group=index,
        offer=columns(np.concatenate([np.arange(count) for count in counts])),
        is_kept=columns(size > 0, np.zeros(len(offers), bool)),
        accuracy=columns(np.array([offer.option.variant.accuracy for offer in offers])),
        energy_j=with_loading(
            [cost.energy_j for cost in costs], [cost.load_energy_j for cost in costs], [o.load[0] for o in offers]
        ),
        money=with_loading(
            [cost.money for cost in costs], [cost.load_money for cost in costs], [o.load[1] for o in offers]
        ),
        memory=coo_array((needed, (phase[index], np.arange(len(index)))), shape=(1 + int(phase.max()), len(index))),
        is_tight=is_tight,
    )


def _group_rows(group: NDArray[np.int64], count: int) -> coo_array:
    """Return the constraints that each group's shares add up to at most 1."""
    columns = np.arange(len(group))
    return coo_array((np.ones(len(group)), (group, columns)), shape=(count, len(group)))


def _shares(groups: Sequence[RequestGroup], columns: _Columns, found: Numbers) -> list[Shares]:
    counts = [len(group.offers) for group in groups]
    begins = np.cumsum([0, *counts])
    shares = np.asarray(np.bincount(begins[columns.group] + columns.offer, found), np.float64)
    kept = np.bincount(columns.group, np.where(columns.is_kept, found, 0.0))
    of_groups = np.split(shares, begins[1:-1])
    return [Shares(offers=each, kept=float(part)) for each, part in zip(of_groups, kept, strict=True)]
