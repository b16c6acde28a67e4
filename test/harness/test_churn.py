# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Faults come as often as asked, to whom they may come, and again in the same way."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from cacheinf_ros.harness.churn import SERVER, CameraFaults, ProcessFault, plan_process_faults
from cacheinf_ros.harness.resources import growth_of


@given(st.integers(0, 100), st.floats(0.0, 1.0), st.integers(0, 4))
def test_a_plan_is_in_order_within_its_time_and_spares_whom_it_must(
    seed: int, server_share: float, robots: int
) -> None:
    arguments = {"duration_s": 100.0, "every_s": 2.0, "robots": range(1, robots), "server_share": server_share}
    plan = plan_process_faults(seed, **arguments)  # type: ignore[arg-type]
    assert plan == plan_process_faults(seed, **arguments)  # type: ignore[arg-type]
    times = [fault.at_s for fault in plan]
    assert times == sorted(times)
    assert all(0 < at < 100 for at in times)
    assert {fault.target for fault in plan} <= {SERVER, *range(1, robots)}


def test_faults_come_as_often_as_asked() -> None:
    plan = plan_process_faults(0, duration_s=10_000.0, every_s=2.0, robots=[1, 2], server_share=0.3)
    assert 4700 < len(plan) < 5300
    assert {fault.kind for fault in plan} == set(ProcessFault)
    assert 0.27 < np.mean([fault.target == SERVER for fault in plan]) < 0.33
    faults = CameraFaults(0, 0.2)
    assert 0.18 < np.mean([faults.draw() is not None for _ in range(10_000)]) < 0.22


def test_growth_is_that_after_the_warm_up() -> None:
    seconds = np.arange(0.0, 3600.0, 10.0)
    memory = 1e8 + np.where(seconds < 600, 1e5 * seconds, 6e7 + 2e6 * (seconds - 600) / 3600)
    growth = growth_of("node", np.column_stack([seconds, memory, np.full(360, 7), 20 + (seconds > 3000)]))
    assert abs(growth.memory_mb_per_hour - 2.0) < 0.01
    assert growth.threads == (7, 7)
    assert growth.descriptors == (20, 21)
