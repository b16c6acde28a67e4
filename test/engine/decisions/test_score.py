# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Scores add up, and a loss is the difference between two scores."""

import pytest

from cacheinf_ros.engine.decisions import MOVING_ALLOWANCE, Loss, Score


def test_the_loss_is_the_difference_of_the_shares() -> None:
    ours = Score(right=8, total=10, moving_right=1, moving_total=4)
    dense = Score(right=9, total=10, moving_right=3, moving_total=4)
    loss = Loss.of(ours, dense)
    assert loss.whole == pytest.approx(0.1)
    assert loss.moving == pytest.approx(0.5)


def test_counts_of_frames_add_up() -> None:
    total = Score(right=1, total=2) + Score(right=3, total=4, moving_right=1, moving_total=2)
    assert total == Score(right=4, total=6, moving_right=1, moving_total=2)


def test_nothing_to_decide_is_right_and_nothing_that_moves_costs_nothing() -> None:
    assert Score().whole == 1.0
    assert Score().moving is None
    assert Loss.of(Score(right=1, total=2), Score(right=1, total=1)).moving == 0.0


@pytest.mark.parametrize(
    ("whole", "moving", "kept"),
    [(0.02, 0.0, True), (0.021, 0.0, False), (0.0, MOVING_ALLOWANCE * 0.02, True), (0.0, 0.06, False), (-1, -1, True)],
)
def test_a_promise_has_two_halves(whole: float, moving: float, kept: bool) -> None:
    assert Loss(whole=whole, moving=moving).within(0.02) is kept
