# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Outputs equal dense execution whichever machine computes what of a frame."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from dividing import SIZES, connected, run_frames, solved
from sessions import Both

from cacheinf_ros.offload.planning import Scheduler
from cacheinf_ros.offload_policy import OffloadPolicy

# remote_jpeg changes the picture on its way: its outputs are those of another one
POLICIES = [policy for policy in OffloadPolicy if policy is not OffloadPolicy.REMOTE_JPEG]


@pytest.fixture(scope="module", params=SIZES, ids=lambda name: Path(name.rpartition(":")[2]).stem)
def sessions(request: pytest.FixtureRequest) -> Iterator[Both]:
    with connected(request.param) as found:
        yield found


@pytest.fixture(scope="module")
def scheduler(sessions: Both) -> Scheduler:
    return Scheduler(*solved(sessions))


@pytest.mark.parametrize("policy", POLICIES)
def test_outputs_equal_dense_under_every_policy(sessions: Both, scheduler: Scheduler, policy: OffloadPolicy) -> None:
    partitions = run_frames(sessions, scheduler, policy)
    assert any(partition is not None for partition in partitions) == (policy is not OffloadPolicy.LOCAL)
