# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""A search in its own process finds what one here would, and ends with its parent however that ends."""

from __future__ import annotations

import os
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from processes import has_ended, has_loaded
from workloads import MIXED, surroundings

from cacheinf_ros.errors import SearchError
from cacheinf_ros.offload.planning.timeline import Timeline
from cacheinf_ros.offload.searching import search_process
from cacheinf_ros.offload.searching.search_messages import table_of
from cacheinf_ros.offload.searching.search_problem import SearchProblem, problem_bytes, problem_of
from cacheinf_ros.offload.searching.search_process import SearchProcess
from cacheinf_ros.pipeline.polling import wait_until

DEADLINE_S = 60.0
LONG_S = 1000.0


def problem(time_limit_s: float, seed: int = 1) -> SearchProblem:
    return SearchProblem(work=MIXED, machines=surroundings(MIXED, seed, 4.0), time_limit_s=time_limit_s)


@settings(max_examples=10)
@given(st.integers(0, 1000), st.sampled_from([0.5, 24.0, 600.0]), st.sampled_from([0.0, 0.9]))
def test_what_crosses_is_the_same_problem(seed: int, mbit_s: float, reuse: float) -> None:
    sent = problem(2.0, seed)
    read = problem_of(problem_bytes(sent))
    assert read.time_limit_s == 2.0
    rows = np.random.default_rng(seed).integers(0, MIXED.heights[1:] + 1)
    ends = []
    for each in (sent, read):
        active = each.work.active_at(reuse)
        timeline = Timeline(each.work, each.machines.conditions(mbit_s, active, active))
        ends.append(timeline.end(rows))
    assert ends[0] == ends[1]


def test_a_process_finds_what_would_be_found_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The search gets no time to evolve, as that depends on the clock, and it leaves nothing on the disk."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    with SearchProcess(problem_bytes(problem(0.0)), 0.0) as process:
        found = table_of(process.answer(), MIXED)
    assert (found.rows == problem(0.0).solve().rows).all()
    assert not list(tmp_path.iterdir())


def test_a_search_that_fails_or_is_ended_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with SearchProcess(problem_bytes(problem(LONG_S)), LONG_S) as process:
        process.kill()
        with pytest.raises(SearchError, match="exit code -9"):
            process.answer()
    broken = tmp_path / "broken.py"
    broken.write_text("import sys; sys.exit('no memory')")
    monkeypatch.setattr(search_process, "_PROGRAM", broken)
    with SearchProcess(b"", 0.0) as process, pytest.raises(SearchError, match="the search failed: no memory"):
        process.answer()
    monkeypatch.setattr(sys, "executable", str(tmp_path))
    with pytest.raises(SearchError, match="no process could be started"):
        SearchProcess(b"", 0.0)


@pytest.mark.parametrize("is_searching", [False, True], ids=["starting", "searching"])
def test_it_ends_with_a_process_that_is_killed(is_searching: bool, tmp_path: Path) -> None:
    """SIGKILL leaves the parent no time to end the search itself."""
    pid_file = tmp_path / "pid"
    parent = os.fork()
    if not parent:
        with suppress(BaseException):
            _search_for_ever(pid_file, tmp_path)
        os._exit(1)
    try:
        assert wait_until(pid_file.exists, DEADLINE_S)
        pid = int(pid_file.read_text())
        if is_searching:
            assert wait_until(lambda: has_loaded(pid, "scipy/optimize"), DEADLINE_S)
            nice = os.getpriority(os.PRIO_PROCESS, 0)
            assert os.getpriority(os.PRIO_PROCESS, pid) == min(nice + 10, 19)
        assert not has_ended(pid)
    finally:
        os.kill(parent, signal.SIGKILL)
        os.waitpid(parent, 0)
    assert wait_until(lambda: has_ended(pid), DEADLINE_S)
    assert [path.name for path in tmp_path.iterdir()] == ["pid"]


def _search_for_ever(pid_file: Path, temporary: Path) -> None:
    os.environ["TMPDIR"] = str(temporary)
    with SearchProcess(problem_bytes(problem(LONG_S)), LONG_S) as process:
        unfinished = pid_file.with_suffix(".unfinished")
        unfinished.write_text(str(process.pid))
        unfinished.rename(pid_file)
        process.answer()
    time.sleep(LONG_S)
