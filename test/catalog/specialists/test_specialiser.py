# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Tests of when a specialist is ordered and withdrawn, with scripted streams."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest
from skewed import CLASSES, draw, training_set

from cacheinf_ros.catalog.specialists.dominance import PAIRS
from cacheinf_ros.catalog.specialists.retarget import retarget
from cacheinf_ros.catalog.specialists.seen_classes import SeenClasses
from cacheinf_ros.catalog.specialists.specialiser import (
    Answered,
    Prepare,
    SkewRules,
    Specialiser,
    Stage,
    Withdraw,
)
from cacheinf_ros.catalog.specialists.specialist import Specialist

FPS = 10.0
RULES = SkewRules()


class Stream:
    """A camera and its model: a specialist answers for classes that it knows, unless told otherwise."""

    def __init__(self, rules: SkewRules = RULES, others: Callable[[], Counter[int]] = Counter) -> None:
        self.seen = SeenClasses(rules.window_s, rules.watch_s, others)
        self.specialiser = Specialiser(CLASSES, rules=rules, seen=self.seen)
        self.now_s = 0.0
        self.audits = 0

    def show(self, classes: list[int], **how: Answered) -> Prepare | Withdraw | None:
        """Show these classes until there is an order, and return it."""
        for class_id in classes:
            self.now_s += 1 / FPS
            order = self.specialiser.observe(class_id, how.get("answered") or self._answered(class_id), self.now_s)
            if order is not None:
                return order
        return None

    def specialise(self) -> Specialist:
        order = self.show(draw(np.random.default_rng(0), 1000))
        assert isinstance(order, Prepare)
        specialist = retarget(training_set(), order.dominance, small_ms=2.0, generic_ms=8.0)
        assert isinstance(specialist, Specialist) and self.specialiser.deployed(specialist)
        return specialist

    def _answered(self, class_id: int) -> Answered:
        specialist = self.specialiser.specialist
        if specialist is None:
            return Answered.GENERIC
        if class_id not in specialist.dominance.classes:
            return Answered.PASSED_ON
        if self.specialiser.audit_due:
            self.audits += 1
            return Answered.CONFIRMED
        return Answered.SPECIALIST


def test_a_skew_is_seen_when_half_of_the_window_is() -> None:
    stream = Stream()
    order = stream.show(draw(np.random.default_rng(0), 1000))
    assert isinstance(order, Prepare)
    assert stream.now_s == pytest.approx(RULES.window_s / 2, abs=0.2)
    assert sorted(order.dominance.classes) == list(range(7))
    assert stream.specialiser.stage is Stage.PREPARING and stream.specialiser.specialist is None


def test_results_from_elsewhere_count_but_order_nothing() -> None:
    stream = Stream()
    for class_id in draw(np.random.default_rng(0), 300):
        stream.now_s += 1 / FPS
        stream.seen.add(class_id, stream.now_s)
    assert stream.specialiser.stage is Stage.GENERIC
    assert isinstance(stream.show([0]), Prepare)


def test_one_goes_on_with_what_another_has_seen() -> None:
    seen = SeenClasses(RULES.window_s, RULES.watch_s)
    before = Specialiser(CLASSES, seen=seen)
    classes = draw(np.random.default_rng(0), 140)
    assert not any(before.observe(each, Answered.GENERIC, i / FPS) for i, each in enumerate(classes))
    now_s = len(classes) / FPS + 1.0
    assert Specialiser(CLASSES).observe(0, Answered.GENERIC, now_s) is None
    assert isinstance(Specialiser(CLASSES, seen=seen).observe(0, Answered.GENERIC, now_s), Prepare)


def test_other_robots_show_the_skew_sooner() -> None:
    others = Counter(draw(np.random.default_rng(1), 100))
    stream = Stream(others=lambda: others)
    order = stream.show(draw(np.random.default_rng(0), 1000))
    assert isinstance(order, Prepare) and sorted(order.dominance.classes) == list(range(7))
    assert RULES.watch_results <= len(stream.seen.latest) < 3 * RULES.watch_results  # alone it takes 15 seconds


def test_a_slow_model_gets_a_specialist_with_others_only() -> None:
    """At one result a second, 30 are in the window, and 50 are wanted."""
    others = Counter(draw(np.random.default_rng(1), 100))
    for given, expected in ((Counter(), False), (others, True)):
        stream = Stream(others=lambda given=given: given)  # type: ignore[misc]
        orders = []
        for class_id in draw(np.random.default_rng(0), 100):
            stream.now_s += 1.0
            orders.append(stream.specialiser.observe(class_id, Answered.GENERIC, stream.now_s))
        assert any(isinstance(order, Prepare) for order in orders) == expected


def test_a_slow_model_notices_that_its_specialist_is_wrong() -> None:
    """At one result a second an audit comes every 15 s, and the window in which a skew's end is seen has 10 s."""
    others = Counter(draw(np.random.default_rng(1), 100))
    stream = Stream(others=lambda: others)
    stream.specialise()
    order = None
    for _ in range(200):
        stream.now_s += 1.0
        answered = Answered.CONTRADICTED if stream.specialiser.audit_due else Answered.SPECIALIST
        order = stream.specialiser.observe(0, answered, stream.now_s)
        if order is not None:
            break
    assert isinstance(order, Withdraw) and "the model contradicts" in order.why


def test_others_and_its_own_must_be_as_many_as_one_alone_would_need() -> None:
    stream = Stream(others=lambda: Counter({0: 30}))
    assert stream.show([0] * 19) is None
    assert isinstance(stream.show([0]), Prepare)


@pytest.mark.parametrize("by_server", [False, True])
def test_a_stream_that_begins_anew_is_looked_at_anew(by_server: bool) -> None:
    """Also where it goes back with an answer from elsewhere, which comes before the next one from here."""
    stream = Stream(SkewRules(pause_s=1000.0))
    stream.specialise()
    assert isinstance(stream.show([14] * 200), Withdraw)
    at_s, stream.now_s = stream.now_s, 0.0
    if by_server:
        stream.seen.add(0, stream.now_s)
        stream.now_s = at_s + 1.0  # later than the last answer from here
    assert isinstance(stream.show(draw(np.random.default_rng(0), 1000)), Prepare)


@pytest.mark.parametrize(
    ("others", "why"),
    [
        ({0: 24}, "too few"),
        ({14: 1000}, "it does not see that itself"),
        ({CLASSES: 1000, 2**32 - 1: 1000}, "the model has no such classes"),
    ],
)
def test_others_decide_nothing(others: dict[int, int], why: str) -> None:
    stream = Stream(others=lambda: Counter(others))
    assert stream.show([0] * 12 + [1] * 3 + [2] * 3 + [3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13] * 3) is None, why


def test_few_results_decide_nothing() -> None:
    assert Stream().show([1] * (RULES.results - 1)) is None


def test_classes_that_are_all_seen_alike_are_no_skew() -> None:
    """Seven of ten classes make up 0.7 of the results, less than is wanted here; fourteen are more than there are."""
    specialiser = Specialiser(10, pairs=[pair for pair in PAIRS if pair.p > 0.7])
    assert not any(specialiser.observe(i % 10, Answered.GENERIC, i / FPS) for i in range(1000))


def test_while_the_skew_lasts_the_specialist_stays_and_is_audited() -> None:
    stream = Stream()
    stream.specialise()
    before = stream.now_s
    assert stream.show(draw(np.random.default_rng(1), 6000)) is None
    assert stream.specialiser.stage is Stage.SPECIALISED
    known = 0.9 * (stream.now_s - before) * FPS
    assert stream.audits == pytest.approx(known / RULES.audit_every, rel=0.05)


@pytest.mark.parametrize("seed", range(5))
def test_when_the_skew_ends_it_is_withdrawn_within_30_s(seed: int) -> None:
    """When all classes are equally frequent, the seven make up 0.47."""
    stream = Stream()
    stream.specialise()
    stream.show(draw(np.random.default_rng(seed), 300))
    ended = stream.now_s
    order = stream.show(draw(np.random.default_rng(seed + 100), 1000, p=7 / 15))
    assert isinstance(order, Withdraw) and "of the last results, less than" in order.why
    assert stream.now_s - ended < 30.0
    assert stream.specialiser.stage is Stage.GENERIC and stream.specialiser.specialist is None


def test_one_that_passes_most_frames_on_is_withdrawn() -> None:
    """The specialist knows the classes but is unsure of them; break-even is at 1 - 2/8."""
    stream = Stream()
    stream.specialise()
    known = [c for c in draw(np.random.default_rng(2), 1000) if c < 7]
    order = stream.show(known, answered=Answered.PASSED_ON)
    assert isinstance(order, Withdraw) and order.why.endswith("from 75% on it only costs")
    assert "passes 100% of the frames on" in order.why


def test_one_that_is_contradicted_is_withdrawn() -> None:
    stream = Stream()
    stream.specialise()
    before = stream.now_s
    for i in range(300):
        answered = Answered.CONTRADICTED if i % RULES.audit_every == 0 else Answered.SPECIALIST
        order = stream.show([i % 7], answered=answered)
        if order:
            break
    assert isinstance(order, Withdraw) and order.why == "the model contradicts 2 of 2 of its answers"
    assert stream.now_s - before < 30.0


def test_a_few_contradictions_are_expected() -> None:
    """Two contradictions of eleven are not unlikely where one of ten is allowed."""
    stream = Stream()
    stream.specialise()
    for i in range(3000):
        answered = Answered.SPECIALIST
        if i % 10 == 0:  # 10 audits in 10 s, of which one is contradicted
            answered = Answered.CONTRADICTED if i % 100 == 0 else Answered.CONFIRMED
        assert stream.show([i % 7], answered=answered) is None


def test_a_skew_that_ends_meanwhile_ends_the_preparation() -> None:
    stream = Stream()
    order = stream.show(draw(np.random.default_rng(0), 1000))
    assert isinstance(order, Prepare)
    assert isinstance(stream.show(draw(np.random.default_rng(1), 1000, p=0.2)), Withdraw)
    late = retarget(training_set(), order.dominance, small_ms=2.0, generic_ms=8.0)
    assert isinstance(late, Specialist)
    assert not stream.specialiser.deployed(late) and stream.specialiser.stage is Stage.GENERIC


@pytest.mark.parametrize("withdrawn", [True, False])
def test_after_a_failure_there_is_a_pause(withdrawn: bool) -> None:
    stream = Stream()
    if withdrawn:
        stream.specialise()
        assert isinstance(stream.show([1, 2, 3] * 300, answered=Answered.PASSED_ON), Withdraw)
    else:
        assert isinstance(stream.show(draw(np.random.default_rng(0), 1000)), Prepare)
        stream.specialiser.rejected()
    before = stream.now_s
    assert isinstance(stream.show(draw(np.random.default_rng(3), 3000)), Prepare)
    assert stream.now_s - before == pytest.approx(RULES.pause_s, abs=0.2)


def test_without_audits_none_is_due() -> None:
    stream = Stream(SkewRules(audit_every=0))
    stream.specialise()
    assert stream.show(draw(np.random.default_rng(1), 500)) is None
    assert stream.audits == 0


def test_a_stream_that_begins_anew_is_seen_anew() -> None:
    stream = Stream()
    stream.show(draw(np.random.default_rng(0), 120))
    stream.now_s = 0.0
    stream.show(draw(np.random.default_rng(0), 100))
    assert stream.specialiser.stage is Stage.GENERIC
