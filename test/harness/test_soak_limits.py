# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""A soak fails where processes grew by more, or robots recovered later, than the user allows."""

from __future__ import annotations

from collections import Counter

import pytest

from cacheinf_ros.harness.resources import Growth, Slope
from cacheinf_ros.harness.server_rests import Rest, ServerReport
from cacheinf_ros.harness.soak_limits import SoakLimits
from cacheinf_ros.harness.soak_report import SoakReport, Unanswered

HOUR_S = 3600.0


def grown(name: str, mb: float, error_mb: float, lived_s: float = HOUR_S) -> Growth:
    return Growth(
        name=name, lived_s=lived_s, memory_mb=700.0, threads=(21, 21), descriptors=(21, 21),
        memory_slope=Slope(samples=500, per_hour=1e6 * mb, error_per_hour=1e6 * error_mb),
        threads_per_hour=0.0, descriptors_per_hour=0.0,
    )  # fmt: skip


def report(*growth: Growth, rests_mb: tuple[float, ...] = (), recovery_s: tuple[float, ...] = ()) -> SoakReport:
    rests = [
        Rest(at_s=i * HOUR_S / len(rests_mb), pid=7, resident_bytes=round(1e6 * mb)) for i, mb in enumerate(rests_mb)
    ]
    return SoakReport(
        sent=0, fates=Counter(), unanswered=Unanswered(), injected=Counter(), visits=Counter(), tuned=Counter(),
        where=Counter(), recovery_s=[("server: killed", each) for each in recovery_s], starts_s=[], growth=[*growth],
        diagnostics={}, server=ServerReport(rests=rests), deaths=[], tracebacks=[],
    )  # fmt: skip


LIMITS = SoakLimits(most_growth_mb_per_hour=1.0, most_recovery_s=2.0)
lines = LIMITS.exceeded


def test_nothing_is_judged_without_limits() -> None:
    bad = report(grown("robot0", 50.0, 0.1), rests_mb=tuple(500.0 + 50 * i for i in range(8)), recovery_s=(60.0,))
    assert SoakLimits().exceeded(bad) == SoakLimits().not_judged(report()) == []
    assert len(lines(bad)) == 3


@pytest.mark.parametrize("mb, error_mb, is_over", [(3.0, 0.9, True), (3.0, 1.1, False), (0.9, 0.0, False)])
def test_growth_counts_where_it_exceeds_the_limit_by_two_errors(mb: float, error_mb: float, is_over: bool) -> None:
    assert (len(lines(report(grown("robot0", mb, error_mb)))) == 1) is is_over


def test_processes_that_were_started_late_are_not_judged() -> None:
    assert lines(report(grown("robot0", 0.5, 0.1), grown("robot3", 50.0, 0.1, lived_s=0.8 * HOUR_S))) == []


def test_a_soak_that_ended_early_is_judged() -> None:
    assert len(lines(report(grown("robot0", 50.0, 0.1, lived_s=0.1 * HOUR_S)))) == 1


def test_the_server_is_judged_while_nobody_is_there() -> None:
    """With robots it may grow; what it holds without them may not."""
    assert lines(report(grown("server", 50.0, 0.1), rests_mb=(560.0,) * 8)) == []
    assert "server grew by 40.0" in lines(report(rests_mb=tuple(560.0 + 5 * i for i in range(8))))[0]
    alone = report(grown("server", 50.0, 0.1))
    assert lines(alone) == []
    assert LIMITS.not_judged(alone) == ["server's growth, for too few samples", "recovery, as nobody had to"]


def test_one_late_recovery_in_a_hundred_is_allowed() -> None:
    assert lines(report(recovery_s=(*(1.0,) * 99, 500.0))) == []
    assert lines(report(recovery_s=(*(1.0,) * 95, *(9.0,) * 5))) == ["5.0% of all recoveries took more than 2 s"]
