# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Other robots' latest reports are added up while they are fresh, and nobody can fill the memory with them."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from cacheinf_ros.catalog.specialists.other_robots import ClassReport, OtherRobots
from cacheinf_ros.catalog.specialists.seen_classes import SeenClasses

CLASS_COUNTS = st.dictionaries(st.integers(0, 9), st.integers(1, 99))
REPORTS = st.lists(st.tuples(st.sampled_from("abcd"), st.sampled_from("xy"), CLASS_COUNTS), max_size=20)


def _report(robot: str, model: str, counts: dict[int, int]) -> ClassReport:
    return ClassReport(robot=robot, model=model, counts=counts)


@given(REPORTS)
def test_the_latest_of_each_other_robot_counts_until_it_is_old(sent: list[tuple[str, str, dict[int, int]]]) -> None:
    others = OtherRobots(valid_s=10.0)
    for now_s, (robot, model, counts) in enumerate(sent):
        others.take(_report(robot, model, counts), float(now_s))
    latest = {(robot, model): (at_s, counts) for at_s, (robot, model, counts) in enumerate(sent)}
    now_s = float(len(sent))
    fresh = {names: counts for names, (at_s, counts) in latest.items() if now_s - at_s < 10.0}
    for model in "xy":
        assert others.counts(model, now_s) == sum((Counter(fresh[k]) for k in fresh if k[1] == model), Counter())
    assert others.robots(now_s) == len({robot for robot, _ in fresh})


def test_invented_robots_take_no_memory() -> None:
    others = OtherRobots(30.0)
    for number in range(1000):
        others.take(_report(f"robot{number}", "x", {1: 1}), 0.0)
    assert others.robots(0.0) == others.counts("x", 0.0).total() == 64


def test_reports_are_added_up_once_a_second_however_many_come() -> None:
    others = OtherRobots(30.0)
    found = []
    for number in range(5):
        others.take(_report(f"robot{number}", "x", {1: 1}), 0.4 * number)
        found.append(others.counts("x", 0.4 * number).total())
    assert found == [1, 1, 1, 4, 4]


def test_what_is_told_is_new_and_from_half_of_the_window_at_least() -> None:
    seen = SeenClasses(10.0, 2.0)
    assert seen.news() == {}
    for now_s in (0.0, 1.0, 4.0):
        seen.add(3, now_s)
    assert seen.news() == {}  # of 4 seconds
    seen.add(5, 5.0)
    assert seen.news() == {3: 3, 5: 1}
    assert seen.news() == {}  # nothing has come since
    seen.add(5, 11.5)
    assert seen.news() == {3: 1, 5: 2}  # the first two are too old
