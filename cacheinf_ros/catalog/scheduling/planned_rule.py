# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Our rule, a model-predictive controller: the rest of the budget is planned for all requests to come, repeatedly.

The paper calls it unclear how to schedule with guarantees, and gives each request a budget of its own. Such a budget
considers neither what variants cost nor how accurate they are, and a part of it stays unspent where every model has an
option that is cheaper than what its requests may take. Here the requests that are expected until the budget ends are
divided among all options of all models by a linear programme (:mod:`.allocation`). The plan is followed for a short
while before a new one is made with what is left then. No request takes more than is left, as with any rule.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from cacheinf_ros.catalog.scheduling.allocation import RequestGroup, allocate
from cacheinf_ros.catalog.scheduling.decision import Option, Why
from cacheinf_ros.catalog.scheduling.model_state import ModelState, Question, Situation
from cacheinf_ros.catalog.scheduling.offer import in_time, takes
from cacheinf_ros.solvers import load_solvers

_PLANS = 200  # plans are made in the budget's time, at least
_EARLY = 0.1  # age of a plan, of the time since the budget began: expectations change most at first
_LEAST_S = 1.0  # age of a plan after the budget's time, which may have been next to none
_STAYS = 0.02  # planned share of requests above which an option in the cache stays there
_KEPT = 0.5  # planned share of requests above which memory is kept
_UNSEEN = 0.03  # prior of the connection: this share of the budget's time counts as seen both with and without it

_MOST = 0.99  # upper bound of the share of coming requests with, and without, a connection
_CAUTION = 1.0  # standard deviations added to the share without a connection

_Shares = Mapping[int, float]  # by the id of an option: the scheduler's models keep theirs


@dataclass(frozen=True, slots=True, kw_only=True)
class _Plan:
    """A plan for the coming requests, by model and whether the cloud is reached.

    Attributes:
        made_s: when the plan was made.
        ends_s: when an option that was left out may be chosen again; the plan knows nothing of it.
        shares: share of the requests that each option serves.
        kept: models for which device memory is kept, by whether the cloud is reached.
    """

    made_s: float
    ends_s: float
    shares: Mapping[tuple[str, bool], _Shares]
    kept: Mapping[bool, frozenset[str]]


class PlannedRule:
    """Makes plans and follows them; it learns from requests, and serves one scheduler and one budget."""

    def __init__(self) -> None:
        load_solvers()  # here, as only those who make this rule plan
        self._plan: _Plan | None = None
        self._seen = {True: 0, False: 0}  # requests
        self._turns = 0  # times that the connection came or went
        self._connected = True
        self._before = (self._turns, self._connected)  # the last request

    def saw(self, connected: bool, *, again: bool = False) -> None:
        """Count a request, with or without a connection to the cloud; ``again``: the last one, counted otherwise."""
        if again:
            self._seen[self._connected] -= 1
            self._turns, self._connected = self._before
        self._before = self._turns, self._connected
        self._turns += bool(sum(self._seen.values())) and connected is not self._connected
        self._seen[connected] += 1
        self._connected = connected

    def expect_change(self) -> None:
        """Discard the plan, as what is known about the models has changed."""
        self._plan = None

    def keeps(self) -> frozenset[str]:
        """Return the models whose variants stay in device memory while others can be evicted."""
        return self._plan.kept[self._connected] if self._plan else frozenset()

    def pick(self, question: Question) -> tuple[Option | None, Why]:
        """Return the option that the plan gives most requests; one in the cache stays while the plan uses it."""
        payable = question.payable()
        if not payable:
            return None, Why.USED_UP
        model, situation, current = question.model, question.situation, question.current
        offers = in_time(payable, model.needed_hz(question.now_s), is_miss=current is None)
        shares = self._planned(situation, question.now_s).shares[model.name, question.connected]
        if current is not None and shares.get(id(current), 0.0) > _STAYS and any(o.option is current for o in offers):
            return current, Why.FITS
        best = max(offers, key=lambda offer: shares.get(id(offer.option), 0.0))
        if shares.get(id(best.option), 0.0) > 0.0:
            return best.option, Why.FITS
        requests = _requests(situation, model, question.now_s)
        return min(offers, key=lambda o: takes(o, requests, situation.account, current)).option, Why.CHEAPEST

    def _planned(self, situation: Situation, now_s: float) -> _Plan:
        plan, since_s, whole_s = self._plan, now_s - situation.begun_s, situation.ends_s - situation.begun_s
        longest_s = min(whole_s / _PLANS, _EARLY * since_s)
        if now_s > situation.ends_s:
            longest_s = max(longest_s, _LEAST_S)
        if plan is None or now_s > plan.made_s + longest_s or now_s >= plan.ends_s:
            plan = self._plan = self._made(situation, now_s)
        return plan

    def _made(self, situation: Situation, now_s: float) -> _Plan:
        cases = [
            (model, connected)
            for connected in self._seen
            for model in situation.models.values()
            if model.reachable(connected, now_s)
        ]
        requests = {name: _requests(situation, model, now_s) for name, model in situation.models.items()}
        away = self._away(situation, now_s)
        groups = [
            _group(situation, model, connected, now_s, requests, 1 - away if connected else away)
            for model, connected in cases
        ]
        found = allocate(groups, situation.account, situation.loaded.capacity)
        shares, kept = {}, {True: set[str](), False: set[str]()}
        for (model, connected), group, each in zip(cases, groups, found, strict=True):
            parts = zip(group.offers, each.offers.tolist(), strict=True)
            shares[model.name, connected] = {id(offer.option): part for offer, part in parts}
            if each.kept > _KEPT:
                kept[connected].add(model.name)
        return _Plan(
            made_s=now_s,
            ends_s=min(model.next_return_s(now_s) for model in situation.models.values()),
            shares=shares,
            kept={phase: frozenset(names) for phase, names in kept.items()},
        )

    def _away(self, situation: Situation, now_s: float) -> float:
        """Estimate, on the high side, the share of coming requests without a connection, from those so far.

        The less time is left, the more likely the connection stays as it is; one that comes and goes at random returns
        to its average within about half the time between two changes. The margin is for requests without a connection,
        which take most of the battery; it is larger the fewer changes were seen.
        """
        since_s, left_s = now_s - situation.begun_s, situation.ends_s - now_s
        believed = _UNSEEN * (since_s + left_s) * sum(model.demanded_hz for model in situation.models.values())
        away = (believed + self._seen[False]) / (2 * believed + sum(self._seen.values()))
        returning_s = since_s / (2 * (1 + self._turns))
        if returning_s > 0 and left_s > 0:
            staying = returning_s / left_s * -math.expm1(-left_s / returning_s)
            away += ((not self._connected) - away) * staying
        caution = _CAUTION * math.sqrt(away * (1 - away) / (1 + self._turns / 2))
        return min(max(away + caution, 1 - _MOST), _MOST)


def _group(
    situation: Situation,
    model: ModelState,
    connected: bool,
    now_s: float,
    requests: Mapping[str, float],
    share: float,
) -> RequestGroup:
    """Return the coming requests for a model with or without a connection.

    Args:
        requests: the expected requests for each model, with and without.
        share: the share of them that come so.
    """
    resident = situation.loaded.get(model.name)
    offers = situation.offers(model, resident.option if resident else None, now_s, connected=connected)
    payable = offers.paid_by(situation.account)
    return RequestGroup(
        requests=requests[model.name] * share,
        offers=in_time(payable or offers.each, model.needed_hz(now_s)),
        phase=int(connected),
        begun_share=model.begun_share,
        present_share=requests[model.name] / sum(requests.values()),
    )


def _requests(situation: Situation, model: ModelState, now_s: float) -> float:
    """Return the number of requests expected for a model until the end, at least 1."""
    hz = model.overall_hz(now_s - situation.begun_s)
    return max(1.0, hz * (situation.ends_s - now_s))
