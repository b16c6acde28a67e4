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
    weight = np.array([groups[g].requests for g in columns.group]) / total
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
        is_kept: bool [columns], whether device memory is kept for the offer.
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
    phases = 1 + max((group.phase for group in groups), default=0)
    most = np.zeros(phases)
    for group in groups:
        most[group.phase] += max((device_bytes(offer.option) for offer in group.offers), default=0)
    is_tight = bool((most > cache_bytes).any())
    found = []
    for g, group in enumerate(groups):
        for o, offer in enumerate(group.offers):
            cost, size = offer.cost, device_bytes(offer.option) / max(cache_bytes, 1)
            (load_j, load_money), n = offer.load, max(group.requests, 1.0)
            accuracy = offer.option.variant.accuracy
            found.append((g, o, True, accuracy, cost.energy_j + load_j / n, cost.money + load_money / n, size))
            if is_tight and size > 0:
                again = group.begun_share
                paged_j, paged_money = cost.energy_j + again * cost.load_energy_j, cost.money + again * cost.load_money
                found.append((g, o, False, accuracy, paged_j, paged_money, size * group.present_share))
    at, offer_at, kept, accuracies, joules, dollars, sizes = zip(*found, strict=True)
    index = np.array(at, np.int64)
    phase = np.array([group.phase for group in groups])[index]
    return _Columns(
        group=index,
        offer=np.array(offer_at, np.int64),
        is_kept=np.array(kept),
        accuracy=np.array(accuracies),
        energy_j=np.array(joules),
        money=np.array(dollars),
        memory=coo_array((np.array(sizes), (phase, np.arange(len(index)))), shape=(phases, len(index))),
        is_tight=is_tight,
    )


def _group_rows(group: NDArray[np.int64], count: int) -> coo_array:
    """Return the constraints that each group's shares add up to at most 1."""
    columns = np.arange(len(group))
    return coo_array((np.ones(len(group)), (group, columns)), shape=(count, len(group)))


def _shares(groups: Sequence[RequestGroup], columns: _Columns, found: Numbers) -> list[Shares]:
    shares = [np.zeros(len(group.offers)) for group in groups]
    kept = np.zeros(len(groups))
    for at, offer, is_kept, part in zip(columns.group, columns.offer, columns.is_kept, found, strict=True):
        shares[at][offer] += part
        kept[at] += part if is_kept and device_bytes(groups[at].offers[offer].option) else 0.0
    return [Shares(offers=each, kept=float(part)) for each, part in zip(shares, kept, strict=True)]
