# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Ours: a model-predictive controller. What is left is planned for all requests to come, again and again.

The paper calls it unclear how to schedule with guarantees, and gives each request a budget of its own. That knows
neither what variants cost nor how accurate they are, and leaves a part of the budget unspent where every model has an
option that is cheaper than what its requests may take. Here the requests that are expected until the budget ends are
divided among all options of all models by a linear programme (:mod:`.allocation`), of which only the next moments are
lived before it is solved anew with what is left then. No request takes more than is left, as with any rule.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from cacheinf_ros.catalog.scheduling.allocation import RequestGroup, allocate
from cacheinf_ros.catalog.scheduling.decision import Option, Why
from cacheinf_ros.catalog.scheduling.model_state import ModelState, Question, Situation
from cacheinf_ros.catalog.scheduling.offer import in_time, takes
from cacheinf_ros.catalog.variant import Place

_PLANS = 200  # of a budget's time
_EARLY = 0.1  # of the time since it began: what is expected changes most at first
_STAYS = 0.02  # share of the requests to come for which what is in the cache stays
_KEPT = 0.5  # share of the requests to come during which memory is kept
_UNSEEN = 0.03  # of the budget's time: so much of both, with and without a connection, counts as seen

_MOST = 0.99  # of the requests to come, that meet no connection, or one
_CAUTION = 1.0  # standard deviations of the share without a connection

_Key = tuple[str, Place]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Plan:
    """For the requests to come, by model and whether the cloud is reached.

    Attributes:
        made_s: when.
        shares: of the requests, by the variant's name and place that serve them.
        kept: models for which the device's memory is kept, by whether the cloud is reached.
    """

    made_s: float
    shares: Mapping[tuple[str, bool], Mapping[_Key, float]]
    kept: Mapping[bool, frozenset[str]]


class PlannedRule:
    """Follows plans that it makes. It learns from requests: for one scheduler and one budget."""

    def __init__(self) -> None:
        self._plan: _Plan | None = None
        self._seen = {True: 0, False: 0}  # requests
        self._turns = 0  # that the connection came or went
        self._connected = True

    def saw(self, connected: bool) -> None:
        """A request came while the cloud was reached, or not."""
        self._turns += bool(sum(self._seen.values())) and connected is not self._connected
        self._seen[connected] += 1
        self._connected = connected

    def expect_change(self) -> None:
        """What is known of the models has changed: the plan holds no longer."""
        self._plan = None

    def keeps(self) -> frozenset[str]:
        """Models whose variants stay in the device's memory while others can leave it."""
        return self._plan.kept[self._connected] if self._plan else frozenset()

    def pick(self, question: Question) -> tuple[Option | None, Why]:
        """What the plan has most of the model's requests served by; what is in the cache, while it serves some."""
        payable = question.payable()
        if not payable:
            return None, Why.USED_UP
        model, situation, current = question.model, question.situation, question.current
        offers = in_time(payable, model.needed_hz(question.now_s), is_miss=current is None)
        shares = self._planned(situation, question.now_s).shares[model.name, question.connected]
        if current is not None and shares.get(_key(current), 0.0) > _STAYS and any(o.option is current for o in offers):
            return current, Why.FITS
        best = max(offers, key=lambda offer: shares.get(_key(offer.option), 0.0))
        if shares.get(_key(best.option), 0.0) > 0.0:
            return best.option, Why.FITS
        requests = _requests(situation, model, question.now_s)
        return min(offers, key=lambda o: takes(o, requests, situation.account, current)).option, Why.CHEAPEST

    def _planned(self, situation: Situation, now_s: float) -> _Plan:
        since_s, whole_s = now_s - situation.begun_s, situation.ends_s - situation.begun_s
        if self._plan is None or now_s > self._plan.made_s + min(whole_s / _PLANS, _EARLY * since_s):
            self._plan = self._made(situation, now_s)
        return self._plan

    def _made(self, situation: Situation, now_s: float) -> _Plan:
        cases = [
            (model, connected)
            for connected in self._seen
            for model in situation.models.values()
            if model.reachable(connected)
        ]
        groups = [self._group(situation, model, connected, now_s) for model, connected in cases]
        found = allocate(groups, situation.account, situation.loaded.capacity)
        shares, kept = {}, {True: set[str](), False: set[str]()}
        for (model, connected), group, each in zip(cases, groups, found, strict=True):
            parts = zip(group.offers, each.offers, strict=True)
            shares[model.name, connected] = {_key(offer.option): float(part) for offer, part in parts}
            if each.kept > _KEPT:
                kept[connected].add(model.name)
        return _Plan(made_s=now_s, shares=shares, kept={phase: frozenset(names) for phase, names in kept.items()})

    def _group(self, situation: Situation, model: ModelState, connected: bool, now_s: float) -> RequestGroup:
        resident = situation.loaded.get(model.name)
        current = resident.option if resident else None
        offers = [situation.offer(model.name, option, current) for option in model.reachable(connected)]
        payable = [offer for offer in offers if offer.is_paid_by(situation.account)]
        requests, away = _requests(situation, model, now_s), self._away(situation, now_s)
        return RequestGroup(
            requests=requests * (1 - away if connected else away),
            offers=in_time(payable or offers, model.needed_hz(now_s)),
            phase=int(connected),
            begun_share=model.begun_share,
            present_share=requests / sum(_requests(situation, each, now_s) for each in situation.models.values()),
        )

    def _away(self, situation: Situation, now_s: float) -> float:
        """Share of the requests to come that meet no connection: as of those until now, or rather more.

        The less time is left the more likely it stays as it is; a connection that comes and goes at random returns to
        its average within about half the time between two turns. Without a connection requests take most of the
        battery, and how often it is away is known the less the fewer turns were seen.
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


def _key(option: Option) -> _Key:
    return option.variant.name, option.place


def _requests(situation: Situation, model: ModelState, now_s: float) -> float:
    """Count those expected of a model until the end; at the end, and after it, one."""
    hz = model.overall_hz(now_s - situation.begun_s)
    return max(1.0, hz * (situation.ends_s - now_s))
