# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Matching frame by frame, with configurations that change."""

from __future__ import annotations

import numpy as np

from cacheinf_ros.matching import MatchingConfig
from cacheinf_ros.mode import Mode
from cacheinf_ros.pipeline.map_producer import MapProducer

MS = 1_000_000


def test_a_model_of_many_seconds_leaves_the_configuration_in_force() -> None:
    """The time of a dense frame is measured, and may lie outside of what a user can set."""
    image = np.zeros((40, 40, 3), np.uint8)
    producer = MapProducer(MatchingConfig())

    def reuse(threshold: float, stamp: int, shade: int) -> float:
        update = producer.link(
            image + np.uint8(shade), stamp * MS, MatchingConfig(threshold=threshold), mode=Mode.EXACT, dense_ms=30_000.0
        )
        return update.cache_map.reuse_ratio

    reuse(20.0, 1, 0)
    assert reuse(20.0, 2, 5) == 1.0
    assert reuse(100.0, 3, 9) == 0.0
