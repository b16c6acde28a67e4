# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Correction of the catalog's costs by the energy that executing and loading really take, and what the server is paid.

A catalog is measured with a dense model on an idle machine, and with the prices of then. With a cache frames take less,
and beside other nodes they take more; without a correction the budget would be left unspent, or used up too soon. MCDNN
has no such correction.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from cacheinf_ros.catalog.scheduling.decision import Option
from cacheinf_ros.catalog.variant import Cost, Place

_KEPT = 0.98  # weight of the earlier observations after each new one
_MOST = 50.0  # bound of the ratio, and of its inverse
_FARTHEST = 5.0  # times the present ratio: more is not learned from one observation


@dataclass(slots=True)
class _Ratio:
    """Relates what was taken, joules or dollars, to what was predicted, which itself counts as one observation."""

    predicted: float = 0.0
    took: float = 0.0

    @property
    def value(self) -> float:
        if self.predicted <= 0:
            return 1.0
        return max(self.took / self.predicted, 1 / _MOST)  # observe() bounds it from above

    def observe(self, predicted: float, took: float) -> None:
        if predicted <= 0:
            return
        if self.predicted <= 0:
            self.predicted = self.took = predicted
        most = min(_MOST, _FARTHEST * self.value)  # one that took far longer, as the first often does, says little
        self.predicted = _KEPT * self.predicted + predicted
        self.took = _KEPT * self.took + min(took, most * predicted)


@dataclass(slots=True)
class CostCorrection:
    """Corrects the costs of one robot's models, each by its own ratio: a cache's savings depend on the network.

    Attributes:
        observations: the number of observations so far; costs change with nothing else.
    """

    observations: int = 0
    _executing: dict[tuple[str, Place], _Ratio] = field(default_factory=dict)
    _loading: dict[str, _Ratio] = field(default_factory=dict)
    _paying: dict[str, _Ratio] = field(default_factory=dict)

    def executed(self, model: str, option: Option, took_j: float) -> None:
        """Learn the energy that a request took, without loading."""
        self.observations += 1
        self._executing.setdefault((model, option.place), _Ratio()).observe(option.cost.energy_j, took_j)

    def loaded(self, model: str, option: Option, took_j: float) -> None:
        """Learn the energy that loading took."""
        self.observations += 1
        self._loading.setdefault(model, _Ratio()).observe(option.cost.load_energy_j, took_j)

    def paid(self, model: str, option: Option, money: float) -> None:
        """Learn what a request that the server answered cost, dollars, at its usual price and without loading.

        Prices are the same wherever the server is paid, so this holds for requests of all kinds, and for loading.
        """
        self.observations += 1
        self._paying.setdefault(model, _Ratio()).observe(option.cost.money, money)

    def cost(self, model: str, option: Option) -> Cost:
        """Return what the option is expected to cost; as the catalog says where nothing has been observed."""
        executing, loading = self._executing.get((model, option.place)), self._loading.get(model)
        paying = self._paying.get(model)
        if executing is None and loading is None and paying is None:
            return option.cost
        return replace(
            option.cost,
            money=option.cost.money * (paying.value if paying else 1.0),
            load_money=option.cost.load_money * (paying.value if paying else 1.0),
            energy_j=option.cost.energy_j * (executing.value if executing else 1.0),
            load_energy_j=option.cost.load_energy_j * (loading.value if loading else 1.0),
        )
