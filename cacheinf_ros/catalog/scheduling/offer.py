# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Options with their costs at one moment, and the choice of those that answer in time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from cacheinf_ros.catalog.scheduling.budgets import Account
from cacheinf_ros.catalog.scheduling.decision import Option
from cacheinf_ros.catalog.variant import Cost


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """An option with its present costs.

    Attributes:
        option: the catalog's option.
        cost: the expected cost.
        load: (J, dollars) of loading the option into the cache; zeros if it is there.
    """

    option: Option
    cost: Cost
    load: tuple[float, float]

    def total(self, requests: float) -> Cost:
        """Return the cost of that many requests, and of loading."""
        energy_j, money = self.load
        return Cost(energy_j=energy_j + requests * self.cost.energy_j, money=money + requests * self.cost.money)

    def is_paid_by(self, account: Account) -> bool:
        """Tell whether the account pays for loading and one request."""
        return account.covers(self.cost.energy_j + self.load[0], self.cost.money + self.load[1])


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Offers:
    """The offers of one model, which stay the same until its options or their costs change.

    Attributes:
        options: the options that are offered.
        each: an offer for each option, in their order.
        most_j, most_money: what the dearest offers take, with loading: an account that covers both pays for all.
    """

    options: Sequence[Option]
    each: Sequence[Offer]
    most_j: float
    most_money: float

    @classmethod
    def of(cls, options: Sequence[Option], each: Sequence[Offer]) -> Offers:
        """Return these offers of these options."""
        most_j = max((offer.cost.energy_j + offer.load[0] for offer in each), default=0.0)
        most_money = max((offer.cost.money + offer.load[1] for offer in each), default=0.0)
        return cls(options=options, each=each, most_j=most_j, most_money=most_money)

    def paid_by(self, account: Account) -> Sequence[Offer]:
        """Return the offers that the account pays for, loading and one request."""
        if account.covers(self.most_j, self.most_money):
            return self.each
        return [offer for offer in self.each if offer.is_paid_by(account)]


def in_time(offers: Sequence[Offer], rate_hz: float, *, is_miss: bool = False) -> Sequence[Offer]:
    """Return the offers that answer before the next request is expected (equation 5); where none does, the fastest.

    On a miss the request waits for loading too, so that only variants that load fast enough are possible (algorithm 1,
    lines 37 to 40: a*_l is the most accurate in each place whose loading time is acceptable). The paper leaves open
    which time is acceptable; here it is what equation 5 leaves beside executing.

    Args:
        offers: at least one.
        rate_hz: rate of requests.
        is_miss: whether the cache holds nothing that can serve.
    """
    costs = [offer.option.cost for offer in offers]
    takes_ms = [cost.latency_ms + cost.load_ms for cost in costs] if is_miss else [cost.latency_ms for cost in costs]
    slowest_ms = max(1e3 / rate_hz, min(takes_ms))
    if max(takes_ms) <= slowest_ms:
        return offers
    return [offer for offer, each_ms in zip(offers, takes_ms, strict=True) if each_ms <= slowest_ms]


def most_accurate(fitting: Iterator[Offer]) -> Iterator[Offer]:
    """Yield the first offer, and those after it that are as accurate."""
    for offer in fitting:
        yield offer
        accuracy = offer.option.variant.accuracy
        for other in fitting:
            if other.option.variant.accuracy < accuracy:
                return
            yield other


def takes(offer: Offer, requests: float, account: Account, current: Option | None) -> tuple[float, bool]:
    """Return the share of the account that so many requests take, and False for the loaded option, to break ties."""
    return account.share(offer.total(requests)), offer.option is not current
