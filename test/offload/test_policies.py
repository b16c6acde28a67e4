# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Whoever computes what of a frame, the outputs are those of dense execution."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import cycle
from pathlib import Path

import numpy as np
import pytest
from oracle import assert_result_equals_dense, changed
from sessions import Both, both
from workloads import surroundings

from cacheinf_ros.engine import Engine, Outdated, Partition
from cacheinf_ros.graph import load_model
from cacheinf_ros.offload.planning import Scheduler, Workload
from cacheinf_ros.offload.planning.plan_table import solve
from cacheinf_ros.offload.protocol.frames import OffloadConfig
from cacheinf_ros.offload_policy import OffloadPolicy

NETWORKS = Path(__file__).parents[1] / "networks"
SIZES = {
    "torchvision:resnet50": (96, 128),
    "torchvision:vgg19": (64, 96),
    "scenenet": (120, 160),
    str(NETWORKS / "pose.yaml"): (128, 128),
    str(NETWORKS / "espnet.yaml"): (128, 256),
}
LINKS = (0.5, 20.0, 2000.0)
# remote_jpeg changes the picture on its way: its outputs are those of another one
POLICIES = [policy for policy in OffloadPolicy if policy is not OffloadPolicy.REMOTE_JPEG]


@pytest.fixture(scope="module", params=SIZES, ids=lambda name: Path(name.rpartition(":")[2]).stem)
def sessions(request: pytest.FixtureRequest) -> Iterator[Both]:
    model = load_model(request.param, input_size=SIZES[request.param])
    with both(model, config=OffloadConfig(server_deadline_ms=20_000.0, probe_s=0.05)) as found:
        found.connect()
        yield found


@pytest.fixture(scope="module")
def scheduler(sessions: Both) -> Scheduler:
    work = Workload(sessions.engine.program.layout)
    around = surroundings(work, 1, 3.0)
    return Scheduler(work, around, solve(work, around, LINKS, (0.0, 0.9), time_limit_s=1.0))


@pytest.mark.parametrize("policy", POLICIES)
def test_outputs_equal_dense_under_every_policy(sessions: Both, scheduler: Scheduler, policy: OffloadPolicy) -> None:
    rng = np.random.default_rng(0)
    engine: Engine = sessions.engine
    assert engine.shared is not None
    engine.reset()
    image, cache_map = rng.integers(0, 256, (*sessions.size, 3), np.uint8), None
    splits = []
    for mbit_s, share in zip((*LINKS, *LINKS), cycle((0.02, 0.2)), strict=False):

        def choose(outdated: Outdated, mbit_s: float = mbit_s) -> Partition | None:
            splits.append(scheduler.choose(policy, mbit_s, 1.0, outdated).split)
            return splits[-1]

        if not policy.is_cached:
            engine.reset()
            cache_map = None
        result = engine.run(image, cache_map, sessions.robot.frame(choose))
        assert not engine.shared.complaint
        assert engine.shared.was_shared == (splits[-1] is not None)
        assert_result_equals_dense(engine, result, image)
        image, cache_map = changed(image, 8, share, rng)
    assert any(split is not None for split in splits) == (policy is not OffloadPolicy.LOCAL)
