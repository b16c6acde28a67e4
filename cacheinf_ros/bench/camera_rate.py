# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Judges the ways of a stream as their answers would arrive at the camera's rate, in simulated time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from cacheinf_ros.bench.interleaving import Interleaved
from cacheinf_ros.bench.judge import Judge
from cacheinf_ros.bench.shots import Shot
from cacheinf_ros.bench.stream_figures import StreamFigures
from cacheinf_ros.bench.stream_plan import StreamPlan
from cacheinf_ros.bench.streaming import Emission, answer_at_rate, newest, simulate


def judge_at_rate(
    ran: Interleaved, figures: StreamFigures, judge: Judge, taken: Sequence[Shot], plan: StreamPlan
) -> dict[str, dict[str, Any]]:
    """Return each way's figures, for JSON.

    Args:
        judge: the judge of the frames that count.
        taken: all frames, with those to warm up.
    """
    ways = {}
    for name, decisions in ran.losses.decisions.items():
        took_ms = figures.took_ms[name]
        given: dict[int, Any] = dict(enumerate(decisions))
        if name in plan.own and max(took or 0.0 for took in took_ms) > plan.period_ms:
            emissions, given = _run_again(ran, name, taken, plan)
        else:
            emissions = simulate(took_ms, plan.period_ms, figures.built_on.get(name))
        # the first answer is free: there are frames before those that count
        given.setdefault(0, decisions[0])
        times_ms = [index * plan.period_ms for index in range(len(decisions))]
        sources = newest([Emission(at_ms=0.0, frame=0), *emissions], times_ms)
        arrived = [None if source is None else given[source] for source in sources]
        mean_ms = float(np.mean([took or 0.0 for took in took_ms]))
        ways[name] = {"mean_ms": round(mean_ms, 3), **judge.judge(decisions, arrived, sources)}
    return ways


def _run_again(
    ran: Interleaved, name: str, taken: Sequence[Shot], plan: StreamPlan
) -> tuple[list[Emission], dict[int, Any]]:
    """Run one of this package's modes once more, at the camera's rate.

    What it holds and caches depends on which frames it has had the time to see.

    Returns:
        when its answers arrive, and its decisions by frame.
    """
    own = ran.begun(name)
    for shot in taken[: plan.warm_up]:
        own.answer(shot)
    counted = taken[plan.warm_up :]
    given: dict[int, Any] = {}

    def answer(index: int) -> tuple[float, float]:
        answered, behind_ms = own.answer(counted[index])
        given[index] = answered.decision
        return answered.took_ms, behind_ms

    return answer_at_rate(answer, len(counted), plan.period_ms), given
