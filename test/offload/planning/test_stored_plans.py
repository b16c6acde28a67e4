# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Tables of schedules outlive the process that solved them."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from workloads import MIXED, Chain, surroundings, workload

from cacheinf_ros.offload.planning import Machines, ScheduleTable, Workload, stored_plans
from cacheinf_ros.offload.planning.plan_table import solve

AROUND = surroundings(MIXED, seed=1, speedup=4.0)


@pytest.fixture
def solved(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """Return a list that grows with each search."""
    calls: list[str] = []

    def counted(work: Workload, around: Machines, *, time_limit_s: float) -> ScheduleTable:
        calls.append("solved")
        return solve(work, around, time_limit_s=time_limit_s)

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(stored_plans, "solve", counted)
    return calls


def load(work: Workload = MIXED, around: Machines = AROUND, seconds: float = 0.1) -> ScheduleTable:
    return stored_plans.load_or_solve("mixed", work, around, time_limit_s=seconds)


def test_the_second_start_finds_the_table_of_the_first(solved: list[str]) -> None:
    first, second = load(), load()
    assert len(solved) == 1
    assert (first.rows == second.rows).all()
    assert (first.mbit_s, first.reuse) == (second.mbit_s, second.reuse)


def test_other_machines_networks_and_searches_have_their_own(solved: list[str]) -> None:
    load()
    load(around=dataclasses.replace(AROUND, server_ms=2 * AROUND.server_ms))
    load(around=dataclasses.replace(AROUND, value_bytes=2.0))
    load(seconds=0.2)
    for reach in (0, 1):
        work = workload(Chain(reach))
        load(work, surroundings(work, seed=1, speedup=4.0))
    assert len(solved) == 6


@pytest.mark.parametrize("damage", ["", "{}", '{"rows": [1, 2]}', '{"rows": [-1]}'])
def test_a_damaged_table_is_solved_anew(
    solved: list[str], tmp_path: Path, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    first = load()
    (file,) = tmp_path.rglob("*.json")
    file.write_text(damage)
    assert (load().rows == first.rows).all() or len(solved) == 2
    assert len(solved) == 2 and "solving anew" in caplog.text
