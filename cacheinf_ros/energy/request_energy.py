# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""What single requests take of the battery: by a meter where there is one, else by the power model."""

from __future__ import annotations

from collections.abc import Callable

from cacheinf_ros.energy.meters import EnergyMeter, reading
from cacheinf_ros.energy.power_model import EnergyKind, PowerModel, Spent


class RequestEnergy:
    """The robot's rest between two requests is no request's: what it draws then is not in the budget."""

    def __init__(self, model: PowerModel, meter: EnergyMeter | None, note: Callable[[str, str], None]) -> None:
        """Take a meter, if there is one; ``note`` takes names and texts for diagnostics."""
        self._model, self._meter, self._note = model, meter, note

    def begin(self) -> float | None:
        """Read the meter when a request begins; None: there is none, or it could not be read."""
        return reading(self._meter)

    def end(self, begun_j: float | None, took_ms: float, spent: Spent) -> float:
        """Say what a request has taken, J.

        Args:
            begun_j: from :meth:`begin`.
            took_ms: since then.
            spent: for the model; what is not spent in it, the robot waited.
        """
        now_j = reading(self._meter)
        if now_j is not None and begun_j is not None:
            self._note("energy_kind", EnergyKind.MEASURED.value)
            return now_j - begun_j
        self._note("energy_kind", EnergyKind.MODELLED.value)
        return self._model.joules(took_ms, spent.compute_ms, spent.transmit_ms, spent.receive_ms)
