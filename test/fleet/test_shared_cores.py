# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Simulated cores are shared equally by those who compute at once, by hand and as a property."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from cacheinf_ros.fleet.shared_cores import SharedCores

simpy = pytest.importorskip("simpy")
JOBS = st.lists(st.tuples(st.floats(0, 2), st.floats(0.01, 2)), min_size=1, max_size=8)
"""A strategy for jobs: the beginning and the core seconds of each."""


def ends(cores: int, jobs: list[tuple[float, float]], given_up_s: float = 1e6) -> NDArray[np.float64]:
    """Return float64 [jobs, 2]: when each job ends, and how many core seconds of it were done."""
    env = simpy.Environment()
    shared = SharedCores(env, cores)
    found = [(0.0, 0.0)] * len(jobs)

    def job(number: int, begin_s: float, seconds: float) -> Generator[Any, Any, None]:
        yield env.timeout(begin_s)
        worked_s = yield from shared.work(seconds, env.timeout(given_up_s))
        found[number] = env.now, worked_s

    for number, (begin_s, seconds) in enumerate(jobs):
        env.process(job(number, begin_s, seconds))
    env.run(until=1000.0)
    return np.array(found)


def test_three_at_once_on_two_cores() -> None:
    assert ends(2, [(0, 1.0)] * 3) == pytest.approx(np.array([(1.5, 1.0)] * 3))


def test_who_comes_later_slows_the_others_down_from_then_on() -> None:
    """The first job has done 0.5 when the second comes; they share until it ends at 1.5, and then one is alone."""
    assert ends(1, [(0, 1.0), (0.5, 1.0)]) == pytest.approx(np.array([(1.5, 1.0), (2.0, 1.0)]))


def test_what_is_given_up_frees_its_share() -> None:
    assert ends(1, [(0, 1.0), (0, 1.0)], given_up_s=0.5) == pytest.approx(np.array([(0.5, 0.25)] * 2))


@given(st.integers(1, 4), JOBS)
def test_nobody_is_faster_than_a_core_and_no_core_rests_while_there_is_work(
    cores: int, jobs: list[tuple[float, float]]
) -> None:
    found = ends(cores, jobs)
    for (begin_s, seconds), (end_s, worked_s) in zip(jobs, found, strict=True):
        assert worked_s == pytest.approx(seconds)
        assert end_s >= begin_s + seconds - 1e-6
    last_s = found[:, 0].max()
    least_s = sum(seconds for _, seconds in jobs) / cores
    assert last_s >= least_s - 1e-6
    if all(begin_s == 0 for begin_s, _ in jobs) and len({seconds for _, seconds in jobs}) == 1:
        assert last_s == pytest.approx(max(least_s, jobs[0][1]))
