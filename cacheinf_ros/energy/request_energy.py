# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The energy that single requests take: measured by a meter where there is one, else by the power model."""

from __future__ import annotations

from collections.abc import Callable

from cacheinf_ros.energy.meters import EnergyMeter, reading
from cacheinf_ros.energy.power_model import EnergyKind, PowerModel, Spent


class RequestEnergy:
    """Measures the energy of requests; what the robot draws between two of them belongs to none, nor to the budget."""

    def __init__(self, model: PowerModel, meter: EnergyMeter | None, note: Callable[[str, str], None]) -> None:
        """Use a meter, if there is one; ``note`` is given names and texts for diagnostics."""
        self._model, self._meter, self._note = model, meter, note

    def begin(self) -> float | None:
        """Read the meter when a request begins; None: there is none, or it could not be read."""
        return reading(self._meter)

    def end(self, begun_j: float | None, took_ms: float, spent: Spent) -> float:
        """Return the energy that a request has taken, in joules.

        Args:
            begun_j: what :meth:`begin` returned.
            took_ms: time since then.
            spent: activities for the model; for the rest of the time the robot waited.
        """
        now_j = reading(self._meter)
        if now_j is not None and begun_j is not None:
            self._note("energy_kind", EnergyKind.MEASURED.value)
            return now_j - begun_j
        self._note("energy_kind", EnergyKind.MODELLED.value)
        return self._model.joules(took_ms, spent.compute_ms, spent.transmit_ms, spent.receive_ms)
