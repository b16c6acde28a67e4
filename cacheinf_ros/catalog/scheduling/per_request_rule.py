# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The paper's rule: each request has a budget of its own (algorithm 1, lines 14 to 17 and 23 to 42)."""

from __future__ import annotations

from dataclasses import dataclass

from cacheinf_ros.catalog.scheduling.budgets import per_request, split_between
from cacheinf_ros.catalog.scheduling.decision import Option, Preference, Why
from cacheinf_ros.catalog.scheduling.model_state import Question
from cacheinf_ros.catalog.scheduling.offer import Offer, in_time, most_accurate, takes
from cacheinf_ros.catalog.variant import Place

_EVERYWHERE = (tuple(Place),)
_GROUPS = {
    Preference.SERVER_FIRST: ((Place.CLOUD,), (Place.SPLIT,), (Place.DEVICE,)),
    Preference.DEVICE_FIRST: ((Place.DEVICE,), (Place.SPLIT,), (Place.CLOUD,)),
}
_NOTHING = (0.0, 0.0)


class PerRequestRule:
    """Picks the most accurate option that fits the budget of one request, wherever it runs."""

    def __init__(self, preference: Preference) -> None:
        """Prepare; ``preference`` may put the server or the device first, else all places are equal."""
        self._groups = _GROUPS.get(preference, _EVERYWHERE)
        self._looks_at_sending = preference is not Preference.SERVER_FIRST

    def pick(self, question: Question) -> tuple[Option | None, Why]:
        """Do what CATALOGLOOKUPRES does in every place, and return the best of what it finds."""
        payable = question.payable()
        if not payable:
            return None, Why.USED_UP
        limits, account, current = _limits(question), question.situation.account, question.current
        offers = in_time(payable, question.model.needed_hz(question.now_s), is_miss=current is None)
        for places in self._groups:
            within = (offer for offer in offers if offer.option.place in places)
            best = list(most_accurate(offer for offer in within if self._fits(offer, limits, offer.load)))
            if best:
                return min(best, key=lambda offer: takes(offer, limits.requests, account, current)).option, Why.FITS
        if current is not None and any(self._fits(offer, limits, _NOTHING) for offer in offers):
            return current, Why.IN_CACHE  # the option fits, and only damping forbids to load it
        return min(offers, key=lambda offer: takes(offer, limits.requests, account, current)).option, Why.CHEAPEST

    def saw(self, connected: bool, *, again: bool = False) -> None:
        """Ignore the request: this rule does not learn."""

    def expect_change(self) -> None:
        """Do nothing: this rule makes no plans."""

    def keeps(self) -> frozenset[str]:
        """Return no models: memory is taken from the least recently used one (line 48)."""
        return frozenset()

    def _fits(self, offer: Offer, limits: _Limits, load: tuple[float, float]) -> bool:
        cost = offer.cost
        energy_j, money = limits.allow(offer.option, load)
        sends_only = offer.option.place is Place.CLOUD and not self._looks_at_sending
        return (cost.energy_j <= energy_j or cost.energy_j <= 0 or sends_only) and (
            cost.money <= money or cost.money <= 0
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Limits:
    """What a request for one model may take now, by line 26; pairs are (energy in J, money in dollars).

    Attributes:
        remaining: what is left of the budget.
        time_s, frequency_hz, squares_hz2: see :func:`per_request`.
        since_load_s: time since the model was last loaded; infinity where it is not in the cache.
        undamped: what a request may take of each where nothing is to be loaded.
    """

    remaining: tuple[float, float]
    time_s: float
    frequency_hz: float
    squares_hz2: tuple[float, float]
    since_load_s: float
    undamped: tuple[float, float]

    @property
    def requests(self) -> float:
        """The number of requests for the model that are expected until the end."""
        return self.frequency_hz * self.time_s

    def allow(self, option: Option, load: tuple[float, float]) -> tuple[float, float]:
        """Return the (J, dollars) that the option may take, given what loading takes (lines 24 to 30)."""
        load_j, load_money = load
        energy_j = self._damped(0, load_j) if load_j > 0 else self.undamped[0]
        money = self._damped(1, load_money) if load_money > 0 else self.undamped[1]
        return split_between(energy_j, money, option.device_share) if option.place is Place.SPLIT else (energy_j, money)

    def _damped(self, i: int, load: float) -> float:
        return per_request(
            self.remaining[i],
            time_s=self.time_s,
            frequency_hz=self.frequency_hz,
            squares_hz2=self.squares_hz2[i],
            load=load,
            since_load_s=self.since_load_s,
        )


def _limits(question: Question) -> _Limits:
    rate_hz = energy_hz2 = money_hz2 = 0.0
    for model in question.situation.models.values():
        hz = model.frequency.hz(question.now_s)
        rate_hz += hz
        energy_hz2 += hz * hz if model.uses_energy or model is question.model else 0.0
        money_hz2 += hz * hz if model.uses_money or model is question.model else 0.0
    account, frequency_hz = question.situation.account, question.model.frequency.hz(question.now_s)
    left_s = question.situation.ends_s - question.now_s
    time_s = max(left_s, 1.0 / rate_hz)  # for one more request at the end and after it
    remaining, squares_hz2 = (account.energy_j, account.money), (energy_hz2, money_hz2)
    undamped_j, undamped_money = (
        per_request(left, time_s=time_s, frequency_hz=frequency_hz, squares_hz2=squares)
        for left, squares in zip(remaining, squares_hz2, strict=True)
    )
    return _Limits(
        remaining=remaining,
        time_s=time_s,
        frequency_hz=frequency_hz,
        squares_hz2=squares_hz2,
        since_load_s=question.since_load_s,
        undamped=(undamped_j, undamped_money),
    )
