# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Matching frame by frame, with configurations that change."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cacheinf_ros.matching import MatchingConfig
from cacheinf_ros.mode import Mode
from cacheinf_ros.pipeline.map_chain import MapUpdate
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


def test_where_less_is_tolerated_matching_begins_anew() -> None:
    """Frames computed completely in between are not what the reference is, which another threshold had tolerated."""
    image = np.random.default_rng(0).integers(0, 256, (40, 60, 3), np.uint8)
    lit = image.copy()
    lit[21:25, 31:35] ^= 8  # within the threshold
    producer = MapProducer(MatchingConfig())
    stamps = iter(range(100))

    def link(frame: NDArray[np.uint8], threshold: float, dense_ms: float = 50.0) -> MapUpdate:
        config = MatchingConfig(threshold=threshold)
        return producer.link(frame, next(stamps) * MS, config, mode=Mode.EXACT, dense_ms=dense_ms)

    assert link(image, 20.0).starts_anew
    tolerated = link(lit, 20.0, 60.0)
    assert not tolerated.starts_anew and tolerated.cache_map.reuse_ratio == 1.0
    # a robot that has computed this frame completely must not be told that nothing has changed since
    changed = link(image, 100.0)
    assert changed.starts_anew and changed.cache_map.reuse_ratio == 0.0
    assert link(image, 100.0).cache_map.reuse_ratio == 1.0
    assert link(lit, 100.0).cache_map.reuse_ratio < 1.0
