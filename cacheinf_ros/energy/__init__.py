# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Energy per frame in joules: measured by the machine's own meters, else estimated by a power model."""

from cacheinf_ros.energy.meters import EnergyMeter, NoMeter, find_meter, reading
from cacheinf_ros.energy.power_model import EnergyAccount, EnergyKind, PowerModel, Spent
from cacheinf_ros.energy.request_energy import RequestEnergy

__all__ = [
    "EnergyAccount", "EnergyKind", "EnergyMeter", "NoMeter", "PowerModel", "RequestEnergy", "Spent", "find_meter",
    "reading",
]  # fmt: skip
