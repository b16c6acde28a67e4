# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""A short soak: real robots and a server, to which things happen that are all accounted for."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("rclpy", reason="needs ROS 2")

from cacheinf_ros.harness.frame_ledger import Fate
from cacheinf_ros.harness.soak import soak
from cacheinf_ros.harness.soak_report import SoakConfig

TINY = f"{Path(__file__).parents[1] / 'networks' / 'tiny.py'}:tiny"


def test_whatever_happens_every_frame_has_one_right_result_or_a_stated_error(domain: int, tmp_path: Path) -> None:
    config = SoakConfig(
        duration_s=20.0, robots=2, slots=4, rate=5.0, model=TINY, source="scene:fixed?size=48x64", policy="remote",
        seed=0, fault_every_s=2.0, server_share=0.4, camera_share=0.2, link_share=0.02, visit_every_s=2.0,
        patience_s=15.0,
    )  # fmt: skip
    report = soak(config, domain=domain, folder=tmp_path)
    assert report.is_clean, report
    assert report.fates[Fate.RIGHT] > 50
    assert report.where["shared"] > 0
    assert report.fates[Fate.STATED] > 0
    assert sum(report.injected.values()) > 20
