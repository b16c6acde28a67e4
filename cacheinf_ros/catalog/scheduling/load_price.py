# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The price of a busy server: prices rise with its load, so that only the requests that need it most go there.

On a server that is busy for a share u of the time, a request takes 1 / (1 - u) times as long as on an idle one
(processor sharing with random arrivals); prices rise by this factor. MCDNN's prices are fixed.
"""

from __future__ import annotations

from dataclasses import replace

from cacheinf_ros.catalog.scheduling.decision import Option
from cacheinf_ros.catalog.variant import Cost


def price_factor(busy: float, most: float) -> float:
    """Return by how much a server's price is multiplied when it is busy.

    Args:
        busy: share of the time that the server is busy, 0 to 1.
        most: upper bound of the factor, at least 1.
    """
    left = 1.0 - busy
    return most if left * most <= 1.0 else 1.0 / left


def priced(option: Option, cost: Cost, factor: float) -> Cost:
    """Return an option's cost at the server's present price, given its cost with an idle server.

    The factor applies to all of the money, and to the share of the energy that belongs to the server's part, during
    which the device sends and waits.
    """
    if factor == 1.0:
        return cost
    energy = 1.0 + (factor - 1.0) * (1.0 - option.device_share)
    return replace(
        cost, energy_j=cost.energy_j * energy, money=cost.money * factor, load_money=cost.load_money * factor
    )
