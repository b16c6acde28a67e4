# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""A short soak test: faults happen to real robots and a server, and all are accounted for."""

from __future__ import annotations

import json
import os
from functools import partial
from pathlib import Path

import pytest

pytest.importorskip("rclpy", reason="needs ROS 2")

from forked_nodes import ForkedGroup, NodeFork

from cacheinf_ros.cli.soak_command import figures
from cacheinf_ros.harness.churn import Column
from cacheinf_ros.harness.frame_ledger import Fate
from cacheinf_ros.harness.policy_changes import DONE
from cacheinf_ros.harness.soak import soak
from cacheinf_ros.harness.soak_report import FaultRates, SoakConfig

FAULTS = int(os.environ.get("CACHEINF_FAULTS", "6"))
"""The number of faults in each column."""
MORE = 2
"""More of them are asked for: with six there were 59 in all columns together once."""
TINY = f"{Path(__file__).parents[1] / 'networks' / 'tiny.py'}:tiny"


def test_whatever_happens_every_frame_has_one_right_result_or_a_stated_error(
    domain: int, node_fork: NodeFork, tmp_path: Path
) -> None:
    config = SoakConfig(
        duration_s=20.0 * FAULTS, robots=4, slots=6, rate=4.0, model=TINY, source="scene:fixed?size=48x64",
        policy="all",
        rates=FaultRates(
            faults=FAULTS + MORE, fault_every_s=0.5, server_share=0.1, cut_share=0.12, camera_share=0.2, link_share=0.03
        ),
        visit_every_s=1.0, tune_every_s=2.0, rest_every_s=max(15.0, 0.6 * FAULTS), patience_s=30.0, seed=0,
    )  # fmt: skip
    report = soak(config, domain=domain, folder=tmp_path, make_group=partial(ForkedGroup, node_fork))
    (tmp_path / "report.json").write_text(json.dumps(figures(report), indent=1))
    assert report.is_clean, report
    one_of = (Fate.RIGHT, Fate.STATED, Fate.EXCUSED, Fate.UNOWED)
    assert report.sent == sum(report.fates[fate] for fate in one_of)
    assert report.fates[Fate.RIGHT] > 50
    assert report.fates[Fate.STATED] > 0
    assert set(report.tuned) == {DONE}
    for column in Column:
        assert sum(count for (whom, _), count in report.injected.items() if whom is column) >= FAULTS, column
    assert sum(report.injected.values()) >= 10 * FAULTS
