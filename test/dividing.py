# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Frames divided between a robot's session and a server's, over links from slow to fast."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import cycle
from pathlib import Path

import numpy as np
from oracle import assert_result_equals_dense, changed
from sessions import Both, both
from workloads import surroundings

from cacheinf_ros.engine import Outdated, Partition
from cacheinf_ros.graph import load_model
from cacheinf_ros.offload.planning import Machines, Scheduler, ScheduleTable, Workload
from cacheinf_ros.offload.planning.plan_table import solve
from cacheinf_ros.offload.protocol.frames import OffloadConfig
from cacheinf_ros.offload_policy import OffloadPolicy

NETWORKS = Path(__file__).parent / "networks"
SIZES = {
    "torchvision:resnet50": (96, 128),
    f"{NETWORKS / 'small.py'}:narrow_vgg19": (64, 96),
    "scenenet": (120, 160),
    str(NETWORKS / "pose.yaml"): (128, 128),
    str(NETWORKS / "espnet.yaml"): (128, 256),
}
LINKS = (0.5, 20.0, 2000.0)


@contextmanager
def connected(model: str) -> Iterator[Both]:
    """Connect a robot and a server that run one of the models of :data:`SIZES`."""
    config = OffloadConfig(server_deadline_ms=20_000.0, probe_s=0.05)
    with both(load_model(model, input_size=SIZES[model]), config=config) as found:
        found.connect()
        yield found


def solved(sessions: Both) -> tuple[Workload, Machines, ScheduleTable]:
    """Return the workload, the machines and the table of schedules that a scheduler takes."""
    work = Workload(sessions.engine.program.layout)
    around = surroundings(work, 1, 3.0)
    return work, around, solve(work, around, LINKS, (0.0, 0.9), time_limit_s=1.0)


def run_frames(sessions: Both, scheduler: Scheduler, policy: OffloadPolicy) -> list[Partition | None]:
    """Compute frames as the scheduler says, compare each with dense execution, and return how they were divided."""
    rng = np.random.default_rng(0)
    engine = sessions.engine
    assert engine.shared is not None
    engine.reset()
    image, cache_map = rng.integers(0, 256, (*sessions.size, 3), np.uint8), None
    partitions: list[Partition | None] = []
    for mbit_s, share in zip((*LINKS, *LINKS), cycle((0.02, 0.2)), strict=False):

        def choose(outdated: Outdated, mbit_s: float = mbit_s) -> Partition | None:
            partitions.append(scheduler.choose(policy, mbit_s, 1.0, outdated).partition)
            return partitions[-1]

        result = engine.run(image, cache_map, sessions.robot.frame(choose))
        assert not engine.shared.complaint
        assert engine.shared.was_shared == (partitions[-1] is not None)
        assert_result_equals_dense(engine, result, image)
        image, cache_map = changed(image, 8, share, rng)
    return partitions
