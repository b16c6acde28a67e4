# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""A soak ends when every possible fault came often enough, and is clean where nothing forbidden happened."""

from __future__ import annotations

from collections import Counter

import pytest

from cacheinf_ros.harness.churn import Column, Visit
from cacheinf_ros.harness.frame_ledger import Fate
from cacheinf_ros.harness.server_rests import ServerReport
from cacheinf_ros.harness.soak_report import FaultRates, SoakReport, Unanswered


def report(fates: dict[Fate, int], visits: dict[str, int]) -> SoakReport:
    return SoakReport(
        sent=0, fates=Counter(fates), unanswered=Unanswered(), injected=Counter(), visits=Counter(visits),
        tuned=Counter(), where=Counter(), recovery_s=[], starts_s=[], growth=[], diagnostics={}, server=ServerReport(),
        deaths=[], tracebacks=[],
    )  # fmt: skip


@pytest.mark.parametrize("visit", Visit)
def test_a_guest_that_must_be_refused_and_has_a_session_is_a_fault(visit: Visit) -> None:
    assert report({}, {f"{visit.value}: came": 1}).is_clean
    assert report({}, {f"{visit.value}: came": 1, visit.admitted: 1}).is_clean is not visit.is_refused


@pytest.mark.parametrize("fate", Fate)
def test_frames_that_went_wrong_are_faults(fate: Fate) -> None:
    assert report({fate: 1}, {}).is_clean is not fate.is_fault


def columns(
    robots: range, *, server: float = 0.2, cut: float = 0.1, camera: float = 0.1, link: float = 0.1
) -> set[Column]:
    rates = FaultRates(fault_every_s=1.0, server_share=server, cut_share=cut, camera_share=camera, link_share=link)
    return set(rates.columns(robots, {1, 3}))


def test_only_what_can_befall_somebody_is_waited_for() -> None:
    everything = set(Column)
    assert columns(range(1, 4)) == everything
    assert columns(range(1, 1)) == everything - {Column.MATCHER, Column.INFERENCE}
    assert columns(range(1, 1), link=0.0) == {Column.CAMERA, Column.SERVER}
    assert columns(range(2, 3)) == everything - {Column.MATCHER}
    assert columns(range(1, 4), camera=0.0) == everything - {Column.CAMERA}
    assert columns(range(1, 4), link=0.0) == everything
    assert columns(range(1, 4), link=0.0, cut=0.0) == everything - {Column.LINK}
    assert columns(range(1, 4), server=1.0) == everything - {Column.MATCHER, Column.INFERENCE}
