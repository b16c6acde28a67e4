# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""A thread that gets the processor half of the time takes twice as long."""

from __future__ import annotations

import time
from unittest import mock

import pytest

from cacheinf_ros.offload.planning.contention import Contention


@pytest.mark.parametrize(
    ("elapsed", "used", "slowdown"),
    [(2.0, 2.0, 1.0), (4.0, 2.0, 2.0), (1.0, 1.1, 1.0), (1e3, 1.0, 20.0), (1.0, 0.0, 1.0)],
)
def test_it_compares_the_clock_with_the_processor(elapsed: float, used: float, slowdown: float) -> None:
    with (
        mock.patch.object(time, "monotonic", side_effect=[10.0, 10.0 + elapsed]),
        mock.patch.object(time, "thread_time", side_effect=[5.0, 5.0 + used]),
        Contention() as contention,
    ):
        pass
    assert contention.slowdown == pytest.approx(slowdown)
