# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Where frames are dropped on the way to the engine, its outputs stay as accurate as promised."""

from __future__ import annotations

import numpy as np
import pytest
from oracle import assert_result_equals_dense

from cacheinf_ros.cache_map import compose
from cacheinf_ros.engine import Engine, EngineConfig, Mode
from cacheinf_ros.geometry.warping import look_through, pooled_difference
from cacheinf_ros.graph import load_model
from cacheinf_ros.matching import MatcherName, MatchingConfig, MatchingStream
from cacheinf_ros.sources import open_source


@pytest.mark.parametrize("matcher", [MatcherName.AUTO, MatcherName.HOMOGRAPHY])
@pytest.mark.parametrize("scene", ["pan", "handheld", "turn", "parallax"])
def test_the_engine_is_exact_for_what_it_shows_and_shows_the_frame(scene: str, matcher: MatcherName) -> None:
    rng = np.random.default_rng(1)
    model = load_model("scenenet", input_size=(120, 160))
    engine = Engine(model, EngineConfig(mode=Mode.BOUNDED, dense_fallback=False))
    matching, folded = (
        MatchingStream(MatchingConfig(matcher=matcher, threshold=30.0, expiry=1000, dense_ms=1000.0)),
        None,
    )
    shares = []
    for frame in open_source(f"scene:{scene}?frames=30&size=120x160&noise=0"):
        cache_map = matching.match(frame.image)
        folded = cache_map if folded is None else compose(folded, cache_map)
        if rng.random() < 0.4:
            continue  # dropped
        result = engine.run(frame.image, folded)
        folded = None
        assert_result_equals_dense(engine, result, engine.composed)
        shares.append(result.reuse_ratio)
        unlike = pooled_difference(look_through(frame.image, result.motion), engine.composed, 10)
        assert np.median(unlike) < 4  # grey levels
    if scene != "parallax":  # pillars hide most of so small a picture
        assert np.mean(shares) > 0.2
