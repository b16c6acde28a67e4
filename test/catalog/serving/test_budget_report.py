# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Tests of what the node that runs catalogs reports in /diagnostics."""

from __future__ import annotations

from cacheinf_ros.catalog.scheduling.budgets import Account
from cacheinf_ros.catalog.serving.budget_report import BudgetReport, whole_frames_prefix
from cacheinf_ros.pipeline.health import Health, WorkState


def values(health: Health) -> dict[str, str]:
    return health.status(WorkState(), latency_budget_ms=1.0, stuck_after_s=1.0, now_s=0.0).values


def test_before_the_first_request_nothing_is_known() -> None:
    health = Health()
    BudgetReport(health).follow(["door"])
    found = values(health)
    for name in ("energy_left_j", "money_left", "horizon_left_s", "door: variant", "door: served", "door: rate_hz"):
        assert found[name] == "n/a"


def test_requests_are_counted_by_model() -> None:
    """Three requests at 1, 1.5 and 2 s are 2 Hz."""
    health, times = Health(), iter([1.0, 1.5, 2.0])
    report = BudgetReport(health, lambda: next(times))
    report.follow(["door", "lamp"])
    report.answered("door", variant="8bit", where="local")
    report.answered("door", variant="original", where="server")
    report.answered("door", error="refused: the budget is used up")
    found = values(health)
    told = {name: found[f"door: {name}"] for name in ("variant", "place", "served", "refused", "rate_hz")}
    assert told == {"variant": "original", "place": "server", "served": "2", "refused": "1", "rate_hz": "2"}
    assert found["lamp: served"] == "n/a"


def test_what_is_left() -> None:
    health = Health()
    BudgetReport(health).left(Account(energy_j=12.5, money=0.25), 60.0, 2_000_000)
    found = values(health)
    names = ("energy_left_j", "money_left", "horizon_left_s", "variants_mb")
    assert [found[name] for name in names] == ["12.5", "0.25", "60.0", "2.0"]


def test_models_come_and_go() -> None:
    health = Health()
    report = BudgetReport(health)
    report.follow(["door", "lamp"])
    report.answered("door", variant="8bit", where="local")
    report.answered("lamp", error="refused: the budget is used up")
    health.note(f"{whole_frames_prefix('lamp')}server", "up")
    report.follow(["door", "hall"])
    found = values(health)
    assert (found["door: served"], found["hall: served"]) == ("1", "n/a")
    assert not any(name.startswith("lamp") for name in found)
    report.follow(["lamp"])
    report.answered("lamp", variant="8bit", where="local")
    assert values(health)["lamp: refused"] == "0"


def test_when_the_node_frees_its_models_nothing_is_said_of_them() -> None:
    health = Health()
    report = BudgetReport(health)
    report.follow(["door"])
    report.left(Account(energy_j=12.5, money=0.25), 60.0, 2_000_000)
    report.close()
    report.answered("door", variant="8bit", where="local")  # a request that outlived the wait for it
    found = values(health)
    assert not any(name.startswith("door") for name in found)
    assert found["energy_left_j"] == found["variants_mb"] == "n/a"
