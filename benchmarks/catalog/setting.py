# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The settings of what ``cacheinf bench catalog`` simulates."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.catalog.paper_catalogs import paper_catalogs
from cacheinf_ros.catalog.variant import Catalog

Progress = Callable[[str], None]
"""A callback that takes a line of text about what is being done."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """The settings of the simulation.

    Attributes:
        catalogs: one per kind of model; without any, those of :func:`paper_catalogs`.
        folders: folders of catalogs for the day of real nodes; without any, small ones are built.
        copies: how many models there are of each kind, so that they do not all fit the cache.
        requests, duration_s: number of requests in a trace, and its length, after which the budget ends.
        traces: number of traces for each point of a figure.
        cache_bytes: the device's memory for variants.
        energy_j, money: the budget (the authors': 5 Wh, and 2 dollars a month).
        load_rates: the load rates of figure 11; see :func:`random_trace`.
        load_rate: the load rate of figure 12.
        sending_j: for figure 12, the energies for sending and receiving a request.
        sending_budget_j: the battery of figure 12: a quarter of 2 Ah at 3.7 V.
        specialised: for figure 12, the shares of the models that are specialised or shared.
        days: number of random days that are compared with the oracle.
        workers: number of processes.
    """

    catalogs: Sequence[Catalog] = ()
    folders: Sequence[Path] = ()
    copies: int = 4
    requests: int = 36_000
    duration_s: float = 36_000.0
    traces: int = 10
    cache_bytes: int = 600 * 10**6
    energy_j: float = 18_000.0
    money: float = 2.0 / 30
    load_rates: Sequence[float] = (0.01, 0.03, 0.1, 0.3, 1.0)
    load_rate: float = 0.1
    sending_j: Sequence[float] = (0.1, 0.3, 0.5)
    sending_budget_j: float = 6_660.0
    specialised: Sequence[float] = (0.0, 0.25, 0.5, 0.75, 1.0)
    days: int = 20
    workers: int = 1

    @property
    def models(self) -> tuple[Catalog, ...]:
        """The catalogs of all models that are asked: :attr:`copies` of each kind, numbered from 1."""
        kinds = self.catalogs or paper_catalogs()
        return tuple(
            replace(catalog, model=f"{catalog.model}_{copy + 1}") for catalog in kinds for copy in range(self.copies)
        )
