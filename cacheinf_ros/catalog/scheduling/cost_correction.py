# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Correction of the catalog's energy costs by what executing and loading really take.

A catalog is measured with a dense model on an idle machine. With a cache frames take less, and beside other nodes they
take more; without a correction the budget would be left unspent, or used up too soon. MCDNN has no such correction.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from cacheinf_ros.catalog.scheduling.decision import Option
from cacheinf_ros.catalog.variant import Cost, Place

_KEPT = 0.98  # weight of the earlier observations after each new one
_MOST = 50.0  # bound of the ratio, and of its inverse


@dataclass(slots=True)
class _Ratio:
    """Relates the energy taken to the energy predicted; the prediction itself counts as one observation."""

    predicted_j: float = 0.0
    took_j: float = 0.0

    @property
    def value(self) -> float:
        if self.predicted_j <= 0:
            return 1.0
        return max(self.took_j / self.predicted_j, 1 / _MOST)  # observe() bounds it from above

    def observe(self, predicted_j: float, took_j: float) -> None:
        if predicted_j <= 0:
            return
        if self.predicted_j <= 0:
            self.predicted_j = self.took_j = predicted_j
        self.predicted_j = _KEPT * self.predicted_j + predicted_j
        self.took_j = _KEPT * self.took_j + min(took_j, _MOST * predicted_j)


@dataclass(slots=True)
class CostCorrection:
    """Corrects the costs of one robot's models, each by its own ratio: a cache's savings depend on the network.

    Attributes:
        observations: the number of observations so far; costs change with nothing else.
    """

    observations: int = 0
    _executing: dict[tuple[str, Place], _Ratio] = field(default_factory=dict)
    _loading: dict[str, _Ratio] = field(default_factory=dict)

    def executed(self, model: str, option: Option, took_j: float) -> None:
        """Learn the energy that a request took, without loading."""
        self.observations += 1
        self._executing.setdefault((model, option.place), _Ratio()).observe(option.cost.energy_j, took_j)

    def loaded(self, model: str, option: Option, took_j: float) -> None:
        """Learn the energy that loading took."""
        self.observations += 1
        self._loading.setdefault(model, _Ratio()).observe(option.cost.load_energy_j, took_j)

    def cost(self, model: str, option: Option) -> Cost:
        """Return what the option is expected to cost; as the catalog says where nothing has been observed."""
        executing, loading = self._executing.get((model, option.place)), self._loading.get(model)
        if executing is None and loading is None:
            return option.cost
        return replace(
            option.cost,
            energy_j=option.cost.energy_j * (executing.value if executing else 1.0),
            load_energy_j=option.cost.load_energy_j * (loading.value if loading else 1.0),
        )
