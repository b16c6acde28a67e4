# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Decides when a model gets a specialist, and when it loses it again: MCDNN, section 5.2.1.

It has no thread and no clock: results go in with their times, orders come out. The paper says what to look for; how
the end of a skew is detected (three signs, with occasional audits by the generic model) is ours.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from math import comb

from cacheinf_ros.catalog.specialists.dominance import PAIRS, Dominance, Pair, find_dominance
from cacheinf_ros.catalog.specialists.seen_classes import SeenClasses
from cacheinf_ros.catalog.specialists.specialist import Specialist

_UNLIKELY = 0.05
_SLACK = 0.1  # a skew has ended when its classes' share is this much below the pair's p
_LEAST_AUDITS = 7  # are kept however old: what a model has in 10 s that is asked 10 times a second
_MOST_CONTRADICTED = 0.1  # contradicted share of a specialist's answers that is tolerated beyond the expected


@dataclass(frozen=True, slots=True, kw_only=True)
class SkewRules:
    """Rules by which a skew begins and ends. They are not for tuning: only tests that hurry change them.

    Attributes:
        window_s: length of the window of results that decides whether classes dominate; at least half must be filled.
        results: least number of results for that decision.
        watch_s: length of the window of results that decides whether a skew has ended.
        watch_results: least number of results for that decision.
        audit_every: one of so many of a specialist's answers is checked by the generic model; 0: none.
        pause_s: time without another specialist after one was withdrawn or found useless.
    """

    window_s: float = 30.0
    results: int = 50
    watch_s: float = 10.0
    watch_results: int = 10
    audit_every: int = 15
    pause_s: float = 30.0


USUAL_RULES = SkewRules()


class Stage(Enum):
    """Where a model's results come from."""

    GENERIC = "generic"
    PREPARING = "preparing"
    """A specialist is being made; results come from the generic model."""
    SPECIALISED = "specialised"


class Answered(Enum):
    """Who answered a frame."""

    GENERIC = "generic"
    """The generic model answered, as there is no specialist."""
    SPECIALIST = "specialist"
    PASSED_ON = "passed_on"
    """The generic model answered, because the specialist said "other" or was not confident."""
    CONFIRMED = "confirmed"
    """The specialist answered; the generic model was asked as well and agreed."""
    CONTRADICTED = "contradicted"
    """The generic model was asked as well, disagreed, and gave the answer."""

    @property
    def is_audit(self) -> bool:
        """Whether both answered although the specialist alone would have done."""
        return self in (Answered.CONFIRMED, Answered.CONTRADICTED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepare:
    """Order to make a specialist for these classes, and then call :meth:`Specialiser.deployed` or ``rejected``."""

    dominance: Dominance


@dataclass(frozen=True, slots=True, kw_only=True)
class Withdraw:
    """Order to use only the generic model from the next frame on, and to drop a specialist that is being made.

    Attributes:
        why: the reason, for the user.
    """

    why: str


class Specialiser:
    """Watches the results of one model, and orders specialists.

    Attributes:
        stage: where the model's results come from at present.
        specialist: the specialist in use, if any.
    """

    def __init__(
        self,
        classes: int,
        pairs: Sequence[Pair] = PAIRS,
        rules: SkewRules = USUAL_RULES,
        seen: SeenClasses | None = None,
    ) -> None:
        """Start without a specialist.

        Args:
            classes: number of the model's classes.
            pairs: the skews worth a specialist, see :func:`pareto.useful_pairs`, the most wanted first.
            seen: the model's latest results, by windows of ``rules``, which this one goes on to count; None: there are
                none, and no other robots.
        """
        self.stage = Stage.GENERIC
        self.specialist: Specialist | None = None
        self._rules, self._classes, self._pairs = rules, classes, pairs
        self._seen = SeenClasses(rules.window_s, rules.watch_s) if seen is None else seen
        self._dominance: Dominance | None = None
        self._answered: deque[tuple[float, Answered]] = deque()
        self._audits: deque[tuple[float, Answered]] = deque()
        self._since_audit = 0
        self._restarts = self._seen.restarts
        self._not_before_s = float("-inf")
        self._now_s = float("-inf")

    @property
    def audit_due(self) -> bool:
        """Whether the generic model should also answer the next frame, whatever the specialist says."""
        every = self._rules.audit_every
        return self.stage is Stage.SPECIALISED and every > 0 and self._since_audit >= every - 1

    def observe(self, class_id: int, answered: Answered, now_s: float) -> Prepare | Withdraw | None:
        """Take a result into account, and return an order, if there is one.

        Args:
            class_id: the answer that was given.
            answered: who gave the answer.
            now_s: time of the result, seconds; where it goes back, the stream has restarted, and earlier results are
                dropped.
        """
        self._seen.add(class_id, now_s)
        if self._seen.restarts != self._restarts:
            self._restarts = self._seen.restarts
            self._forget_answers()
            self._not_before_s = float("-inf")
        self._now_s = now_s
        if self.stage is Stage.GENERIC:
            return self._looking(now_s)
        if self.stage is Stage.SPECIALISED:
            self._note(answered, now_s)
        why = self._ended()
        return self._withdrawn(why, now_s) if why else None

    def deployed(self, specialist: Specialist) -> bool:
        """Use a specialist that was made; returns False where it is no longer wanted and must not be used."""
        if self.stage is not Stage.PREPARING or specialist.dominance is not self._dominance:
            return False
        self.stage, self.specialist = Stage.SPECIALISED, specialist
        self._since_audit = 0
        self._forget_answers()
        return True

    def rejected(self) -> None:
        """Note that no specialist could be made; none is tried again for a while."""
        if self.stage is Stage.PREPARING:
            self._back(self._now_s)

    def _looking(self, now_s: float) -> Prepare | None:
        if now_s < self._not_before_s:
            return None
        seen = self._seen
        if seen.is_long and len(seen.latest) >= self._rules.results:
            self._dominance = find_dominance(seen.latest.counts, self._classes, self._pairs)
        else:
            self._dominance = self._with_others()
        if self._dominance is None:
            return None
        self.stage = Stage.PREPARING
        return Prepare(dominance=self._dominance)

    def _with_others(self) -> Dominance | None:
        """Look for a skew in what other robots have seen, as this one has seen too little.

        Its own latest results must not contradict it, and have to be enough to notice its end. They are not added to
        the others': a few of a single view would make its classes part of any skew.
        """
        rules, recent = self._rules, self._seen.recent
        if len(recent) < rules.watch_results:
            return None
        others = Counter({each: count for each, count in self._seen.others().items() if 0 <= each < self._classes})
        if others.total() < rules.results / 2 or others.total() + len(self._seen.latest) < rules.results:
            return None
        found = find_dominance(others, self._classes, self._pairs)
        return found if found is not None and recent.share(found.classes) >= _least_share(found) else None

    def _note(self, answered: Answered, now_s: float) -> None:
        old_s = now_s - self._rules.watch_s
        self._answered.append((now_s, answered))
        while self._answered[0][0] <= old_s:
            self._answered.popleft()
        if answered.is_audit:
            self._audits.append((now_s, answered))
        while len(self._audits) > _LEAST_AUDITS and self._audits[0][0] <= old_s:
            self._audits.popleft()
        self._since_audit = 0 if answered.is_audit else self._since_audit + (answered is Answered.SPECIALIST)

    def _ended(self) -> str:
        """Return why the skew has ended or the specialist is useless; "" where neither is so."""
        assert self._dominance is not None
        recent = self._seen.recent
        if len(recent) < self._rules.watch_results:
            return ""
        share, least = recent.share(self._dominance.classes), _least_share(self._dominance)
        if share < least:
            return f"its classes make up {share:.0%} of the last results, less than {least:.0%}"
        return self._useless(self.specialist) if self.specialist is not None else ""

    def _useless(self, specialist: Specialist) -> str:
        kinds = [kind for _, kind in self._answered]
        if len(kinds) < self._rules.watch_results:
            return ""
        passed, expected = kinds.count(Answered.PASSED_ON) / len(kinds), specialist.expected
        if passed > expected.break_even:
            return f"it passes {passed:.0%} of the frames on; from {expected.break_even:.0%} on it only costs"
        checked = len(self._audits)
        contradicted = sum(answered is Answered.CONTRADICTED for _, answered in self._audits)
        most = expected.disagreement + _MOST_CONTRADICTED
        if contradicted > 1 and _chance(contradicted, checked, min(most, 1.0)) < _UNLIKELY:
            return f"the model contradicts {contradicted} of {checked} of its answers"
        return ""

    def _withdrawn(self, why: str, now_s: float) -> Withdraw:
        self._back(now_s)
        return Withdraw(why=why)

    def _back(self, now_s: float) -> None:
        self.stage, self.specialist, self._dominance = Stage.GENERIC, None, None
        self._not_before_s = now_s + self._rules.pause_s
        self._forget_answers()

    def _forget_answers(self) -> None:
        self._answered.clear()
        self._audits.clear()


def _least_share(dominance: Dominance) -> float:
    """Return the share of recent results below which a skew has ended."""
    return dominance.pair.p - _SLACK


def _chance(least: int, of: int, share: float) -> float:
    """Return the binomial probability of at least ``least`` hits in ``of`` trials at a rate of ``share``."""
    return sum(comb(of, k) * share**k * (1 - share) ** (of - k) for k in range(least, of + 1))
