# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""How much more or less of the battery things really take than the catalog says.

A catalog is measured with a dense model on a machine that has nothing else to do. With a cache frames take a part of
that, beside other nodes they take more, and with either the budget would be kept badly: too little is dared, or all is
used up too soon. Beyond MCDNN.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from cacheinf_ros.catalog.scheduling.decision import Option
from cacheinf_ros.catalog.variant import Cost, Place

_KEPT = 0.98  # of what was seen so far, with each observation
_MOST = 50.0  # times more or less than predicted


@dataclass(slots=True)
class _Ratio:
    """Relates what was taken to what was predicted; the prediction counts as much as one observation."""

    predicted_j: float = 0.0
    took_j: float = 0.0

    @property
    def value(self) -> float:
        if self.predicted_j <= 0:
            return 1.0
        return max(self.took_j / self.predicted_j, 1 / _MOST)  # at most that: none observed is more

    def observe(self, predicted_j: float, took_j: float) -> None:
        if predicted_j <= 0:
            return
        if self.predicted_j <= 0:
            self.predicted_j = self.took_j = predicted_j
        self.predicted_j = _KEPT * self.predicted_j + predicted_j
        self.took_j = _KEPT * self.took_j + min(took_j, _MOST * predicted_j)


@dataclass(slots=True)
class CostCorrection:
    """Corrects the costs of one robot's models, each by its own: what a cache saves depends on the network."""

    _executing: dict[tuple[str, Place], _Ratio] = field(default_factory=dict)
    _loading: dict[str, _Ratio] = field(default_factory=dict)

    def executed(self, model: str, option: Option, took_j: float) -> None:
        """A request took so much, nothing being loaded."""
        self._executing.setdefault((model, option.place), _Ratio()).observe(option.cost.energy_j, took_j)

    def loaded(self, model: str, option: Option, took_j: float) -> None:
        """Loading took so much."""
        self._loading.setdefault(model, _Ratio()).observe(option.cost.load_energy_j, took_j)

    def cost(self, model: str, option: Option) -> Cost:
        """What the option is expected to take; as the catalog says where nothing has been seen of it."""
        executing, loading = self._executing.get((model, option.place)), self._loading.get(model)
        if executing is None and loading is None:
            return option.cost
        return replace(
            option.cost,
            energy_j=option.cost.energy_j * (executing.value if executing else 1.0),
            load_energy_j=option.cost.load_energy_j * (loading.value if loading else 1.0),
        )
