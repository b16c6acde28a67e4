# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The time of judging answers and of audits is charged once: by the result that states it, or as work in between."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace

import numpy as np
import pytest
from networks.shared_models import small_scenenet
from numpy.typing import NDArray

from cacheinf_ros.engine import DensePrecision, EngineConfig, Mode
from cacheinf_ros.engine.bounded_mode import BoundedMode
from cacheinf_ros.pipeline import runner as runner_module
from cacheinf_ros.pipeline.engine_trial import Way
from cacheinf_ros.pipeline.runner import Runner

JUDGING_S, AUDIT_S = 3.0, 40.0


@pytest.fixture
def runner(monkeypatch: pytest.MonkeyPatch) -> Iterator[Runner]:
    """Yield a runner whose last answer waits to be judged, and whose audit is overdue, on a clock of their own."""
    now_s, unjudged = 0.0, False

    def take(seconds: float) -> None:
        nonlocal now_s
        now_s += seconds

    def finish() -> None:
        nonlocal unjudged
        take(JUDGING_S * unjudged)
        unjudged = False

    made = Runner(
        small_scenenet(),
        EngineConfig(mode=Mode.BOUNDED, threads=1, dense_precision=DensePrecision.FLOAT32),
        lambda name, text: None,
    )
    made.infer(picture(), None)
    assert made.promised is not None
    made.promised.trial.way = Way.CACHED
    unjudged = True
    monkeypatch.setattr(runner_module, "time", SimpleNamespace(perf_counter=lambda: now_s))
    monkeypatch.setattr(made.promised, "finish", finish)
    for name in ("audit_due", "audit_overdue"):
        monkeypatch.setattr(BoundedMode, name, property(lambda mode: True))
    monkeypatch.setattr(BoundedMode, "audit", lambda mode: take(AUDIT_S))
    yield made
    monkeypatch.undo()
    made.close()


def picture() -> NDArray[np.uint8]:
    return np.zeros((96, 128, 3), np.uint8)


def test_judging_for_an_overdue_audit_is_charged_to_the_frame_that_waited_for_it(runner: Runner) -> None:
    """It was charged twice: as work between frames as well."""
    between_ms = runner.audit_if_due(idle=False)
    waited_ms = runner.infer(picture(), None).engine.stage_ms["judge"]
    assert (between_ms, waited_ms) == (1e3 * AUDIT_S, 1e3 * JUDGING_S)


def test_judging_that_nobody_waited_for_is_work_between_frames(runner: Runner) -> None:
    between_ms = [runner.audit_if_due(idle=False), runner.audit_if_due(idle=True)]
    assert between_ms == [1e3 * AUDIT_S, 1e3 * (JUDGING_S + AUDIT_S)]
    assert runner.infer(picture(), None).engine.stage_ms["judge"] == 0.0
