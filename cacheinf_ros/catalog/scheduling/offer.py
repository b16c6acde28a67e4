# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Options as they present themselves to the scheduler at one moment, and which of them are in time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from cacheinf_ros.catalog.scheduling.decision import Option
from cacheinf_ros.catalog.variant import Cost


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """An option as it presents itself now.

    Attributes:
        option: of the catalog.
        cost: that is expected.
        load: (J, dollars) that it takes to have it in the cache.
    """

    option: Option
    cost: Cost
    load: tuple[float, float]

    def total(self, requests: float) -> Cost:
        """Add up that many requests, and loading."""
        energy_j, money = self.load
        return Cost(energy_j=energy_j + requests * self.cost.energy_j, money=money + requests * self.cost.money)


def in_time(offers: Sequence[Offer], frequency_hz: float) -> list[Offer]:
    """Equation 5: those that answer before the next request is expected; where none does, the fastest."""
    slowest_ms = max(1e3 / frequency_hz, min(offer.option.cost.latency_ms for offer in offers))
    return [offer for offer in offers if offer.option.cost.latency_ms <= slowest_ms]


def most_accurate(fitting: Iterator[Offer]) -> Iterator[Offer]:
    """The first, and those after it that are as accurate."""
    for offer in fitting:
        yield offer
        accuracy = offer.option.variant.accuracy
        for other in fitting:
            if other.option.variant.accuracy < accuracy:
                return
            yield other
