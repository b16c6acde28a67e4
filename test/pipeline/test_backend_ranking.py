# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Whatever a burst measured, frames end up on the backend that is the fastest at them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cacheinf_ros.engine import DensePrecision
from cacheinf_ros.engine.dense_backends import DenseBackend
from cacheinf_ros.pipeline.backend_ranking import BackendRanking
from cacheinf_ros.pipeline.engine_trial import goes_first

ENOUGH = 5
TIMES = st.lists(st.floats(1.0, 100.0), min_size=1, max_size=4, unique=True)


def backend(name: str, milliseconds: float) -> DenseBackend:
    return DenseBackend(
        name=name,
        precision=DensePrecision.FLOAT32,
        milliseconds=milliseconds,
        read=lambda image: image,
        run=lambda _: [],
    )


@given(TIMES, st.data())
def test_between_bursts_the_fastest_is_found_from_claims_that_are_too_good(
    real: list[float], data: st.DataObject
) -> None:
    claims = [data.draw(st.floats(0.1, took)) for took in real]
    took = {str(index): milliseconds for index, milliseconds in enumerate(real)}
    ranking = BackendRanking(sorted(map(backend, took, claims), key=lambda each: each.milliseconds))
    changes = 0
    for _ in range(ENOUGH * (len(real) + 1)):
        ranking.took(ranking.best, took[ranking.best.name])
        changes += ranking.look_again()
    assert took[ranking.best.name] == min(real)
    assert changes <= len(real)


def test_when_all_become_slower_the_next_one_computes_one_frame() -> None:
    ranking = BackendRanking([backend("a", 1.0), backend("b", 2.0)])
    computed_by = []
    for _ in range(20):
        computed_by.append(ranking.best.name)
        ranking.took(ranking.best, {"a": 3.0, "b": 6.0}[ranking.best.name])
        ranking.look_again()
    assert computed_by.count("b") == 1


def test_one_slow_frame_after_its_trial_does_not_end_the_new_ones_turn() -> None:
    ranking = BackendRanking([backend("a", 1.0), backend("b", 2.0)])
    for milliseconds in [*[3.0] * ENOUGH, 2.0, 9.0, 2.0, 2.0]:
        ranking.took(ranking.best, milliseconds)
        ranking.look_again()
    assert ranking.best.name == "b"


def test_few_frames_change_nothing() -> None:
    ranking = BackendRanking([backend("a", 1.0), backend("b", 2.0)])
    for _ in range(ENOUGH - 1):
        ranking.took(ranking.best, 100.0)
        assert not ranking.look_again()
    assert ranking.best.name == "a"


@given(TIMES)
def test_in_a_burst_every_other_frame_is_the_best_ones_and_all_are_seen(real: list[float]) -> None:
    ranking = BackendRanking(
        sorted((backend(str(i), took) for i, took in enumerate(real)), key=lambda b: b.milliseconds)
    )
    ranking.rank()
    for burst in range(len(real)):
        shown = [ranking.in_turn(frame, burst).name for frame in range(16)]
        assert sum(name == ranking.best.name for name in shown) >= 7
    assert {ranking.in_turn(frame, burst).name for burst in range(len(real)) for frame in range(16)} == {
        str(index) for index in range(len(real))
    }


@given(TIMES, st.floats(0.5, 5.0))
def test_who_is_not_seen_in_a_burst_is_thought_to_have_become_as_slow_as_the_others(
    alone: list[float], factor: float
) -> None:
    ranking = BackendRanking(
        sorted((backend(str(i), took) for i, took in enumerate(alone)), key=lambda b: b.milliseconds)
    )
    fastest = ranking.best
    ranking.took(fastest, factor * fastest.milliseconds)
    ranking.rank()
    assert ranking.best.name == fastest.name
    assert ranking.best.milliseconds == pytest.approx(factor * min(alone))


@given(TIMES, st.lists(st.integers(0, 3), max_size=6))
def test_whichever_fail_the_others_compute_bursts_and_are_judged(real: list[float], failing: list[int]) -> None:
    """Those clearly slower than the best may be all that is left, and then one of them is the best."""
    took = {str(index): milliseconds for index, milliseconds in enumerate(real)}
    ranking = BackendRanking(sorted(map(backend, took, real), key=lambda each: each.milliseconds))
    ranking.rank()
    left = set(took)
    for burst, place in enumerate([*failing, 0]):
        used = {each.name: each for each in (ranking.in_turn(frame, burst) for frame in range(16))}
        assert ranking.best.name in used
        for each in used.values():
            ranking.took(each, took[each.name])
        if ranking.drop(list(used.values())[place % len(used)]):
            left -= {list(used)[place % len(used)]}
        assert {ranking.in_turn(frame, burst).name for frame in range(16)} <= left
        ranking.rank()
        assert ranking.best.milliseconds == min(took[name] for name in left)


def test_of_a_long_time_between_bursts_only_the_last_frames_count() -> None:
    """With max_loss 0 there are no bursts: times once piled up for as long as the node ran."""
    ranking = BackendRanking([backend("a", 3.0), backend("b", 50.0)])
    for milliseconds in [*[2.0] * 1000, *[3.0] * 100]:
        ranking.took(ranking.best, milliseconds)
        assert not ranking.look_again()
    ranking.rank()
    assert ranking.best.milliseconds == 3.0


@pytest.mark.parametrize("backends", [2, 3, 4])
def test_all_are_timed_beside_an_engine_on_trial(backends: int) -> None:
    """The engine goes first in every other pair of frames, where the dense backend's time does not count."""
    ranking = BackendRanking([backend(str(i), 1.0) for i in range(backends)])
    timed = {ranking.in_turn(frame, 0).name for frame in range(16) if not goes_first(frame)}
    assert timed == {str(i) for i in range(backends)}
