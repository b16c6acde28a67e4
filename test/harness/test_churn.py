# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Faults come as often as asked, befall only those that may be hit, and are repeatable."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from cacheinf_ros.harness.churn import CameraFaults, Column, Fault, ProcessFault, plan_process_faults


@given(st.integers(0, 100), st.floats(0.0, 1.0), st.integers(0, 4))
def test_a_plan_is_in_order_within_its_time_and_spares_whom_it_must(
    seed: int, server_share: float, robots: int
) -> None:
    def draw() -> list[Fault]:
        return plan_process_faults(
            seed, duration_s=100.0, every_s=2.0, robots=range(1, robots), matchers={1, 3}, server_share=server_share,
            cut_share=0.1,
        )  # fmt: skip

    plan = draw()
    assert plan == draw()
    times = [fault.at_s for fault in plan]
    assert times == sorted(times)
    assert all(0 < at < 100 for at in times)
    of_robots = [fault for fault in plan if fault.column in (Column.MATCHER, Column.INFERENCE)]
    assert {fault.robot for fault in of_robots} <= set(range(1, robots))
    assert {fault.robot for fault in plan if fault.column is Column.MATCHER} <= {1, 3}
    assert all((fault.column is Column.LINK) == (fault.kind is ProcessFault.CUT) for fault in plan)


def test_faults_come_as_often_as_asked() -> None:
    plan = plan_process_faults(
        0, duration_s=10_000.0, every_s=2.0, robots=[1, 2], matchers={1}, server_share=0.3, cut_share=0.1
    )
    assert 4700 < len(plan) < 5300
    assert {fault.kind for fault in plan} == set(ProcessFault)
    shares = {Column.SERVER: 0.3, Column.LINK: 0.1, Column.MATCHER: 0.15, Column.INFERENCE: 0.45}
    for column, share in shares.items():
        assert abs(np.mean([fault.column is column for fault in plan]) - share) < 0.03
    faults = CameraFaults(0, 0.2)
    assert 0.18 < np.mean([faults.draw() is not None for _ in range(10_000)]) < 0.22
