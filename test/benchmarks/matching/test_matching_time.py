# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The benchmark of matchers reports what it promises."""

from __future__ import annotations

import json

import numpy as np
import pytest
from strategies import shifted, textured

from benchmarks.matching.matching_time import INSTALLED, run_matcher_benchmark
from cacheinf_ros.errors import MatchingError
from cacheinf_ros.matching import MatcherName, MatchingConfig


def test_every_algorithm_is_reported_at_every_size() -> None:
    image = textured(0, 60, 80)
    report = run_matcher_benchmark(
        (shifted(image, step, 0) for step in range(100)),
        sizes=[(30, 40), (60, 80)],
        frames=4,
        config=MatchingConfig(search_range=4),
    )
    assert json.loads(json.dumps(report)) == report
    assert (report["frames"], report["threads"], list(report["sizes"])) == (3, 1, ["30x40", "60x80"])
    for algorithms in report["sizes"].values():
        assert set(algorithms) == {name.value for name in MatcherName}
        for figures in algorithms.values():
            assert set(figures) == {"latency_ms", "match_ratio"}
            assert 0 < figures["latency_ms"]["p50"] <= figures["latency_ms"]["p95"]
            assert 0 <= figures["match_ratio"]["mean"] <= 1


def test_each_frame_is_matched_with_the_one_before() -> None:
    half = np.zeros((20, 40, 3), np.uint8)
    half[:, 20:] = 255
    frames = [np.zeros_like(half), half, half, np.zeros_like(half)]
    report = run_matcher_benchmark(frames, sizes=[(20, 40)], matchers={"identity": INSTALLED["identity"]})
    assert report["sizes"]["20x40"]["identity"]["match_ratio"]["mean"] == pytest.approx((0.5 + 1 + 0.5) / 3)


def test_one_frame_is_not_enough() -> None:
    with pytest.raises(MatchingError, match="at least 2, not 1"):
        run_matcher_benchmark([np.zeros((4, 4, 3), np.uint8)])
