# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""An upper bound for any schedule of a day, found in hindsight: MCDNN's section 4.2 as an integer programme."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import coo_array

from benchmarks.catalog.requests import Trace
from cacheinf_ros.catalog.scheduling.budgets import Budget
from cacheinf_ros.catalog.scheduling.decision import options_of
from cacheinf_ros.catalog.scheduling.loaded_variants import device_bytes
from cacheinf_ros.catalog.variant import Catalog, Place

_TIME_LIMIT_S = 20.0
_GAP = 1e-4


def most_accurate_day(
    catalogs: Sequence[Catalog], budget: Budget, cache_bytes: int, trace: Trace, connected: Callable[[float], bool]
) -> float:
    """Return the highest mean accuracy over all requests that the budget allows if the whole day is known in advance.

    A refused request counts as wrong. This solves equations 1 to 3 with integers: how many requests of each model, with
    and without a connection, each option serves, and which options are loaded at all. The result is an upper bound:
    loading counts once for each option that serves anything, and the memory (equation 4) only bounds each variant
    alone.
    """
    asked = Counter((model, connected(time_s)) for time_s, model in trace)
    options = {
        catalog.model: [o for o in options_of(catalog) if device_bytes(o) <= cache_bytes] for catalog in catalogs
    }
    uses = [
        (model, is_connected, option)
        for model, is_connected in asked
        for option in options[model]
        if is_connected or option.place is Place.DEVICE
    ]
    loads = [(model, option) for model in options for option in options[model]]
    load_of = {(model, id(option)): len(uses) + i for i, (model, option) in enumerate(loads)}
    size = len(uses) + len(loads)
    costs = [option.cost for *_, option in uses]
    energy_j = np.array([*(c.energy_j for c in costs), *(option.cost.load_energy_j for _, option in loads)])
    money = np.array([*(c.money for c in costs), *(option.cost.load_money for _, option in loads)])
    rows: list[int] = []
    columns: list[int] = []
    values: list[float] = []
    upper: list[float] = []

    def constrain(entries: dict[int, float], most: float) -> None:
        rows.extend([len(upper)] * len(entries))
        columns.extend(entries)
        values.extend(entries.values())
        upper.append(most)

    for used, left in ((energy_j, budget.energy_j), (money, budget.money)):
        if left < np.inf:
            scale = max(left, 1e-9)
            constrain({i: value / scale for i, value in enumerate(used) if value}, left / scale)
    for group, number in asked.items():
        constrain({i: 1.0 for i, use in enumerate(uses) if use[:2] == group}, number)
    for i, (model, is_connected, option) in enumerate(uses):
        constrain({i: 1.0, load_of[model, id(option)]: -asked[model, is_connected]}, 0.0)
    matrix = coo_array((values, (rows, columns)), shape=(len(upper), size)).tocsc()
    counts = [asked[model, is_connected] for model, is_connected, _ in uses]
    found = milp(
        np.concatenate([[-option.variant.accuracy for *_, option in uses], np.zeros(len(loads))]),
        constraints=LinearConstraint(matrix, -np.inf, upper),
        integrality=np.ones(size),
        bounds=Bounds(0, [*counts, *np.ones(len(loads))]),
        options={"time_limit": _TIME_LIMIT_S, "mip_rel_gap": _GAP},
    )  # fmt: skip
    return float(-found.mip_dual_bound / len(trace)) if len(trace) else 0.0
