# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""A gateway keeps reporting to its ledger whatever happens, as a silent one counts as dead."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from fleets import OneProcess, Rig
from sessions import until

from cacheinf_ros.errors import LinkError
from cacheinf_ros.fleet import gateway
from cacheinf_ros.fleet.messages import GatewayReport, Orders


class Failing(OneProcess):
    """A cluster that fails once for each of these reasons, and complains from then on."""

    def __init__(self, *failures: Exception) -> None:
        super().__init__(machines=1)
        self.failures = list(failures)
        self.reports = 0

    def report(self, report: GatewayReport) -> Orders:
        self.reports += 1
        if self.failures:
            raise self.failures.pop(0)
        return Orders(complaint="nobody looks after the machines")


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Failing, Rig]]:
    monkeypatch.setattr(gateway, "_REPORT_S", 0.02)
    cluster = Failing(LinkError("the ledger does not answer"), RuntimeError("nobody has thought of this"))
    rig = Rig(cluster, robots=0)
    yield cluster, rig
    rig.gateway.close()


def test_neither_a_ledger_that_is_away_nor_a_bug_ends_the_reports(failing: tuple[Failing, Rig]) -> None:
    cluster, rig = failing
    until(lambda: cluster.reports > 3)
    assert rig.complaints[0] == "the ledger does not answer"
    assert "nobody has thought of this" in rig.complaints[1] and "Traceback" in rig.complaints[1]


def test_what_the_ledger_complains_of_is_told(failing: tuple[Failing, Rig]) -> None:
    _, rig = failing
    until(lambda: rig.complaints[-1:] == ["nobody looks after the machines"])
