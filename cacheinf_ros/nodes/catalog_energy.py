# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""What single requests take of the battery: by a meter where there is one, else by the power model."""

from __future__ import annotations

from dataclasses import dataclass

from rclpy.node import Node

from cacheinf_ros.energy.power_model import EnergyKind, PowerModel, Spent
from cacheinf_ros.nodes.energy import announced_meter
from cacheinf_ros.pipeline.health import Health


@dataclass(frozen=True, slots=True)
class Reading:
    """Of the meter when a request began; None: there is none, or it could not be read."""

    joules: float | None


class RequestEnergy:
    """The robot's rest between two requests is no request's: what it draws then is not in the budget."""

    def __init__(self, node: Node, model: PowerModel, health: Health) -> None:
        """Look for a meter, and say in the log what was found."""
        self._model = model
        self._health = health
        self._meter = announced_meter(node, "energy of requests")

    def begin(self) -> Reading:
        """A request begins."""
        return Reading(self._read())

    def end(self, begun: Reading, took_ms: float, spent: Spent) -> float:
        """What it has taken, J.

        Args:
            begun: from :meth:`begin`.
            took_ms: since then.
            spent: for the model; what is not spent in it, the robot waited.
        """
        now = self._read()
        if now is not None and begun.joules is not None:
            self._health.note("energy_kind", EnergyKind.MEASURED.value)
            return now - begun.joules
        self._health.note("energy_kind", EnergyKind.MODELLED.value)
        return self._model.joules(took_ms, spent.compute_ms, spent.transmit_ms, spent.receive_ms)

    def _read(self) -> float | None:
        try:
            return None if self._meter is None else self._meter.joules()
        except (OSError, ValueError):  # a bus that is busy: the model has to do for this one
            return None
