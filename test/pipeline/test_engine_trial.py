# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The engine computes frames where it loses little and is faster; with a server complete frames get a chance too."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from cacheinf_ros.engine.decisions import Loss
from cacheinf_ros.pipeline.engine_trial import SHARE, EngineTrial, Way

ASKED = 0.02
LITTLE, MUCH = Loss(whole=0.0, moving=0.0), Loss(whole=0.5, moving=0.5)


def bursts(trial: EngineTrial, loss: Loss, engine_ms: float, count: int) -> list[bool]:
    """Judge so many bursts; whether the engine was on trial in each."""
    was_on = []
    for _ in range(count):
        was_on.append(trial.is_on)
        trial.judge(loss if trial.is_on else None, engine_ms, 10.0, ASKED)
    return was_on


@given(st.floats(0.0, 0.05), st.floats(0.0, 0.1), st.floats(1.0, 20.0), st.booleans())
def test_it_is_chosen_only_where_it_keeps_its_share_and_is_faster(
    whole: float, moving: float, took_ms: float, has_server: bool
) -> None:
    trial, loss = EngineTrial(), Loss(whole=whole, moving=moving)
    trial.meet(has_server=has_server)
    trial.judge(loss, took_ms, 10.0, ASKED)
    assert (trial.way is Way.CACHED) == (loss.within(SHARE * ASKED) and took_ms <= 9.5)


def test_what_does_not_pay_is_tried_ever_more_rarely() -> None:
    was_on = bursts(EngineTrial(), MUCH, 1.0, 14)
    assert [index for index, on in enumerate(was_on) if on] == [0, 4, 11]


def test_with_a_server_complete_frames_are_tried_where_reuse_loses_too_much() -> None:
    trial = EngineTrial()
    assert trial.meet(has_server=True)
    assert not trial.meet(has_server=True)
    assert "with the server" in trial.judge(MUCH, 1.0, 10.0, ASKED)
    assert trial.way is Way.DENSE and trial.is_on and not trial.reuses
    assert "complete with the server" in trial.judge(LITTLE, 1.0, 10.0, ASKED)
    assert trial.way is Way.CACHED and not trial.reuses


def test_when_the_server_goes_frames_are_dense_until_the_engine_was_tried_again() -> None:
    trial = EngineTrial()
    trial.meet(has_server=True)
    trial.judge(LITTLE, 1.0, 10.0, ASKED)
    assert trial.way is Way.CACHED
    assert trial.meet(has_server=False)
    assert trial.way is Way.DENSE and trial.is_on and trial.reuses


def test_thresholds_are_wanted_where_reuse_is_right_but_slow() -> None:
    trial = EngineTrial()
    trial.judge(LITTLE, 12.0, 10.0, ASKED)
    assert trial.wants_thresholds
    trial.start_anew()
    assert not trial.wants_thresholds and trial.is_on
