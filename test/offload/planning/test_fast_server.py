# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""A server far faster than the robot whose launches take time, like a GPU's, in simulated time.

Frames are simulated event by event from what :class:`PartitionSpace` says is transferred, without the timeline's code.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from workloads import MIXED, efficient, outdated, surroundings

from cacheinf_ros.engine import Partition, Side
from cacheinf_ros.engine.cost.model import POINTS
from cacheinf_ros.offload.planning import Choice, Machines, Scheduler, Workload
from cacheinf_ros.offload.planning.plan_table import solve
from cacheinf_ros.offload.planning.workload import Numbers
from cacheinf_ros.offload_policy import OffloadPolicy

SPEEDUP = 20.0
LAUNCH_MS = 0.01
DELAY_MS = 0.2
CHANGED = 0.05
GOOD, SLOW = 1000.0, 0.05  # Mbit/s


def with_gpu(work: Workload, launch_ms: float = LAUNCH_MS) -> Machines:
    """Return a robot, and a server that computes 20 times faster but also takes the time of each launch.

    The robot's operators take time nearly in proportion to their pixels; a launch takes the same time for any pixels.
    """
    robot_ms = surroundings(work, 7, 1.0).robot_ms
    server_ms = np.where(np.array(POINTS) > 0, launch_ms + robot_ms / SPEEDUP, 0.0)
    return Machines(robot_ms=robot_ms, server_ms=server_ms, robot_transfer_ms=0.0, server_transfer_ms=0.0)


def simulated_ms(work: Workload, around: Machines, partition: Partition, mbit_s: float, active: Numbers) -> float:
    """Simulate when the robot has the outputs, in ms: operators run in order, links carry one transfer at a time."""
    space, rate = work.space, mbit_s * 125.0  # bytes per millisecond
    took = {Side.ROBOT: around.robot_ms, Side.SERVER: around.server_ms}
    crossing = {(each.tensor, each.to): each.rows for each in space.transfers(partition)}
    idle, wire = dict.fromkeys(Side, 0.0), dict.fromkeys(Side, 0.0)
    there: dict[tuple[str, Side], float] = {}
    for i, (name, (height, row_pixels, channels)) in enumerate(space.shapes.items()):
        for side in Side if i else ():
            first, last = partition.rows_of(name, height, side)
            if last > first:
                waited = [there.get((leaf, side), 0.0) for leaf, _ in space.reads[name]]
                share = active[i] * (last - first) / height
                idle[side] = max([idle[side], *waited]) + float(np.interp(share, POINTS, took[side][i - 1]))
        row_bytes = row_pixels * (active[i] * (4 * channels if i else 3) + (1 / 8 if i else 1 / 512))
        for side in Side:
            if (name, side) in crossing:
                first, last = crossing[name, side]
                wire[side] = max(wire[side], idle[side.other]) + ((last - first) * row_bytes + 64) / rate
                there[name, side] = wire[side] + DELAY_MS
    return max([idle[Side.ROBOT], *(there.get((name, Side.ROBOT), 0.0) for name in space.results)])


def chosen_and_simulated(work: Workload, scheduler: Scheduler, around: Machines, mbit_s: float) -> tuple[Choice, float]:
    seen = outdated(work, CHANGED)
    choice = scheduler.choose(OffloadPolicy.CACHEINF, mbit_s, DELAY_MS, seen)
    partition = choice.partition or work.space.everything_at(Side.ROBOT)
    return choice, simulated_ms(work, around, partition, mbit_s, work.activity.shares(seen.changed))


@pytest.mark.parametrize("name", ["mixed", "efficientnet_b0"])
def test_over_a_good_link_it_gets_the_work_in_the_time_that_was_predicted(name: str) -> None:
    work = MIXED if name == "mixed" else efficient()
    around = with_gpu(work)
    choice, took_ms = chosen_and_simulated(work, Scheduler(work, around), around, GOOD)
    assert choice.partition is not None
    assert choice.local_share < 0.1
    assert choice.predicted_ms == pytest.approx(took_ms)
    alone_ms = simulated_ms(work, around, work.space.everything_at(Side.ROBOT), GOOD, work.active_at(1 - CHANGED))
    assert took_ms < alone_ms / 2


def test_over_a_slow_link_the_robot_keeps_it() -> None:
    around = with_gpu(MIXED)
    choice, took_ms = chosen_and_simulated(MIXED, Scheduler(MIXED, around), around, SLOW)
    assert choice.partition is None
    assert choice.predicted_ms == pytest.approx(took_ms)


def test_launches_count_where_few_pixels_change() -> None:
    """The server computes as fast as before but launches slowly, so the robot computes a few pixels sooner."""
    around = with_gpu(MIXED, launch_ms=5.0)
    choice, took_ms = chosen_and_simulated(MIXED, Scheduler(MIXED, around), around, GOOD)
    assert choice.local_share > 0.9
    assert choice.predicted_ms == pytest.approx(took_ms)


@pytest.mark.parametrize("mbit_s", [0.5, 5.0, 50.0, 500.0])
def test_frames_that_both_compute_take_what_was_predicted(mbit_s: float) -> None:
    around = with_gpu(MIXED)
    scheduler = Scheduler(MIXED, around, solve(MIXED, around, (0.5, 5.0, 50.0, 500.0), (0.0, 0.9), time_limit_s=2.0))
    choice, took_ms = chosen_and_simulated(MIXED, scheduler, around, mbit_s)
    assert choice.predicted_ms == pytest.approx(took_ms)


def test_a_robot_without_times_computes_alone_until_it_is_seen_to_be_slower() -> None:
    """A robot that computes with plain torch has no measured times: they are learned from its frames."""
    around = with_gpu(MIXED)
    around = replace(around, robot_ms=np.zeros_like(around.robot_ms))
    table = solve(MIXED, around, (5.0, 500.0), (0.0, 0.9), time_limit_s=0.5)
    for scheduler in (Scheduler(MIXED, around), Scheduler(MIXED, around, table)):
        seen = outdated(MIXED, CHANGED)
        choices = []
        for _ in range(10):
            choices.append(scheduler.choose(OffloadPolicy.CACHEINF, GOOD, DELAY_MS, seen))
            took_ms = 100.0 if choices[-1].partition is None else choices[-1].predicted_ms
            scheduler.observe_robot(choices[-1], took_ms)
            scheduler.observe_frame(choices[-1], took_ms)
        assert choices[0].partition is None and choices[0].local_share == 1.0
        assert all(np.isfinite(choice.predicted_ms) for choice in choices)
        assert choices[-1].partition is not None
