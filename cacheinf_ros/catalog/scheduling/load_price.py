# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""What a busy server costs: its prices rise with its load, so that requests go there that need it most.

A server of which a share u of the time is taken lets a request take 1 / (1 - u) times as long as an idle one does
(processor sharing with random arrivals): by so much its prices rise. Beyond MCDNN, whose prices are fixed.
"""

from __future__ import annotations

from dataclasses import replace

from cacheinf_ros.catalog.scheduling.decision import Option
from cacheinf_ros.catalog.variant import Cost


def price_factor(busy: float, most: float) -> float:
    """How many times its price in idle hours a server costs.

    Args:
        busy: share of its time that is taken, 0 to 1.
        most: bound of the factor, at least 1.
    """
    left = 1.0 - busy
    return most if left * most <= 1.0 else 1.0 / left


def priced(option: Option, cost: Cost, factor: float) -> Cost:
    """What an option is to be reckoned with, of what it costs with an idle server.

    All of its money is the server's, and of its energy what the device does not do itself: the server's part, for
    which the device sends and waits.
    """
    if factor == 1.0:
        return cost
    energy = 1.0 + (factor - 1.0) * (1.0 - option.device_share)
    return replace(
        cost, energy_j=cost.energy_j * energy, money=cost.money * factor, load_money=cost.load_money * factor
    )
