# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Tests of which model is asked next, with a clock of the test's own."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("rclpy", reason="needs ROS 2")

from cacheinf_ros.catalog.serving.request_queue import RequestQueue

MS = 1_000_000


class Clock:
    """A clock that stands still until it is set."""

    def __init__(self) -> None:
        self.now_ns = 10**9

    def __call__(self) -> int:
        return self.now_ns


def asking(**rates: float) -> tuple[RequestQueue[int], Clock]:
    clock = Clock()
    return RequestQueue(tuple(rates), lambda: tuple(rates.values()), clock), clock


def everything_due(inbox: RequestQueue[int], clock: Clock) -> list[tuple[str, int]]:
    found = []
    while (asked := inbox.take(clock())) is not None:
        found.append((asked.model, asked.frame))
    return found


def test_each_model_is_asked_at_its_own_rate_on_the_latest_image() -> None:
    """Of 100 images in a second one model gets 10, at 0, 100, ... ms, and the other 4, at 0, 250, 500, 750 ms."""
    inbox, clock = asking(fast=10.0, slow=4.0)
    found = []
    for image in range(100):
        inbox.put(image)
        found += everything_due(inbox, clock)
        clock.now_ns += 10 * MS
    assert [image for model, image in found if model == "fast"] == list(range(0, 100, 10))
    assert [image for model, image in found if model == "slow"] == [0, 25, 50, 75]


def test_what_is_left_at_the_end_is_dropped_unless_a_model_was_asked_about_it() -> None:
    inbox, clock = asking(fast=10.0, slow=4.0)
    inbox.put(0)
    assert inbox.take(clock()) is not None
    assert inbox.waiting == 1
    inbox.drop_all()
    assert (inbox.waiting, inbox.take(clock()), inbox.deadline_ns(), inbox.dropped) == (0, None, None, 0)
    inbox.put(1)
    inbox.drop_all()
    assert (inbox.waiting, inbox.dropped) == (0, 1)


def test_what_is_computed_together_is_asked_together() -> None:
    """This also holds where computing takes longer than a camera's period, and models began at different times."""
    clock = Clock()
    groups = {"one": ("other",), "other": ("one",), "alone": ()}
    inbox: RequestQueue[int] = RequestQueue(tuple(groups), lambda: (5.0, 5.0, 5.0), clock, together=groups.__getitem__)
    found = []
    for image in range(300):
        inbox.put(image)
        asked = inbox.take(clock())
        if asked is not None:
            found.append((asked.model, asked.frame))
            clock.now_ns += 50 * MS
        clock.now_ns += 10 * MS
    images = {model: [frame for name, frame in found if name == model] for model in groups}
    assert images["one"] == images["other"][: len(images["one"])] and len(images["other"]) >= 20
    assert len(set(images["one"])) == len(images["one"])
    assert len(images["alone"]) >= 20


def test_no_model_is_asked_twice_about_an_image() -> None:
    inbox, clock = asking(one=10.0, other=10.0)
    assert inbox.take(clock()) is None and inbox.waiting == 0 and inbox.deadline_ns() is None
    inbox.put(1)
    assert inbox.waiting == 2
    assert everything_due(inbox, clock) == [("one", 1), ("other", 1)]
    clock.now_ns += 1000 * MS
    assert everything_due(inbox, clock) == [] and inbox.waiting == 0
    inbox.put(2)
    assert [image for _, image in everything_due(inbox, clock)] == [2, 2]


def test_images_that_nobody_was_asked_about_are_dropped() -> None:
    inbox, clock = asking(one=10.0)
    inbox.put(1)
    everything_due(inbox, clock)
    for image in (2, 3, 4):
        inbox.put(image)
    assert inbox.dropped == 2
    assert inbox.deadline_ns() == clock() + 100 * MS
    clock.now_ns += 100 * MS
    assert everything_due(inbox, clock) == [("one", 4)]


def test_what_could_not_be_asked_in_time_is_not_asked_later() -> None:
    inbox, clock = asking(one=10.0)
    found = []
    for image, ms in enumerate((0, 950, 10, 95)):  # at 0, 950, 960 and 1055 ms
        clock.now_ns += ms * MS
        inbox.put(image)
        found += everything_due(inbox, clock)
    assert [image for _, image in found] == [0, 1, 3]


def test_rates_may_change() -> None:
    rates = [1.0]
    clock = Clock()
    inbox: RequestQueue[int] = RequestQueue(("one",), lambda: rates, clock)
    inbox.put(1)
    everything_due(inbox, clock)
    inbox.put(2)
    clock.now_ns += 100 * MS
    assert everything_due(inbox, clock) == []
    rates[0] = 10.0
    assert everything_due(inbox, clock) == [("one", 2)]


@given(st.dictionaries(st.sampled_from("abcd"), st.floats(0.5, 50.0), min_size=1), st.lists(st.integers(1, 300)))
def test_never_more_often_than_the_rate(rates: dict[str, float], pauses_ms: list[int]) -> None:
    inbox, clock = asking(**rates)
    start_ns, counts = clock(), Counter[str]()
    for image, ms in enumerate(pauses_ms):
        clock.now_ns += ms * MS
        inbox.put(image)
        waiting, due = inbox.waiting, everything_due(inbox, clock)
        assert waiting == len(due)
        counts.update(model for model, _ in due)
    for model, rate in rates.items():
        assert counts[model] <= 1 + (clock() - start_ns) / 1e9 * rate + 1e-3


def test_a_queue_that_is_left_behind_asks_nobody_for_rates() -> None:
    """A node's models changed while it rested: the rates were of other models by then, and diagnostics ended."""
    rates = [1.0, 2.0]
    queue: RequestQueue[str] = RequestQueue(("a", "b"), lambda: rates)
    queue.put("image")
    queue.drop_all()
    rates.append(3.0)
    assert queue.waiting == 0 and queue.deadline_ns() is None
