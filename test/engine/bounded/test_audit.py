# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Tests of when audits are due and of what they do to the thresholds, on outputs written by hand."""

import pytest
import torch

from cacheinf_ros.engine import EngineConfig, Mode
from cacheinf_ros.engine.bounded import Auditor, Calibration
from cacheinf_ros.engine.quality import OutputScale

CONFIG = EngineConfig(mode=Mode.BOUNDED, max_error=0.1, max_missed=1.0, audit_every=30)
EXACT = [torch.zeros(1, 4)]
STALE = [torch.full((1, 4), 100.0)]  # so far off that no change counts as missed


@pytest.fixture
def auditor() -> Auditor:
    auditor = Auditor()
    auditor.calibration = Calibration(base={}, curve=(), output_scale=OutputScale(deviations=(1.0,)))
    return auditor


def wait(auditor: Auditor) -> int:
    """Return the number of frames until the next audit is due."""
    frames = 0
    while not auditor.is_due(CONFIG):
        auditor.count(STALE, refreshed=True)
        frames += 1
    return frames


def error_of(value: float) -> list[torch.Tensor]:
    return [torch.full((1, 4), value)]


def test_audits_become_rarer_while_the_promise_is_kept_and_come_forward_when_it_is_broken(auditor: Auditor) -> None:
    waits = []
    for error in (0.05, 0.05, 0.05, 0.05, 0.2, 0.05):
        waits.append(wait(auditor))
        auditor.compare(error_of(error), EXACT, CONFIG)
    assert waits == [8, 16, 30, 30, 30, 15]


def test_thresholds_follow_the_error(auditor: Auditor) -> None:
    """With 0.1 allowed, 0.09 tightens them, 0.06 changes nothing, 0.4 halves them, and 0.01 gives back a fifth."""
    tightness = []
    for error in (0.09, 0.06, 0.4, 0.01):
        wait(auditor)
        audit = auditor.compare(error_of(error), EXACT, CONFIG)
        assert audit.kept == (error <= 0.1)
        tightness.append(audit.tightness)
    first = 0.75 / 0.9
    assert tightness == pytest.approx([first, first, first / 2, first / 2 * 1.2])


def test_rounding_breaks_no_promise(auditor: Auditor) -> None:
    auditor.count(EXACT, refreshed=True)  # nothing changed since
    audit = auditor.compare(error_of(1e-6), EXACT, CONFIG.changed(max_error=0.0))
    assert audit.kept
    assert audit.tightness == 1.0


def test_a_share_of_hardly_any_change_is_no_broken_promise(auditor: Auditor) -> None:
    """Missing half of a change breaks the promise only where the change is large and lasted for several frames.

    Half of a change of 0.02 is missed, then half of one of 0.2; changes within few frames do not count.
    """
    config = CONFIG.changed(max_error=0.12, max_missed=0.25)
    auditor.count(error_of(0.2), refreshed=True)
    assert auditor.compare(error_of(0.1), EXACT, config).kept
    config = config.changed(audit_every=2)
    auditor.count(error_of(0.02), refreshed=True)
    assert auditor.compare(error_of(0.01), EXACT, config).kept
    auditor.count(error_of(0.2), refreshed=True)
    audit = auditor.compare(error_of(0.1), EXACT, config)
    assert not audit.kept
    assert audit.missed_change == pytest.approx(0.5)
