# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""This package's modes in ``cacheinf bench stream`` do the work of the nodes: every frame is matched, held or not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from networks.shared_models import small_scenenet

from cacheinf_ros.bench import BOUNDED, Contender, OwnSettings, StreamPlan, recorded, run_stream_benchmark
from cacheinf_ros.cache_map import CacheMap, fold
from cacheinf_ros.engine import EngineConfig, EngineResult, Mode
from cacheinf_ros.matching import MatcherName, MatchingConfig, MatchingStream
from cacheinf_ros.pipeline.promised_answers import PromisedAnswers
from cacheinf_ros.sources import open_source

FRAMES = 6
SAME_PLACE = MatchingConfig(matcher=MatcherName.IDENTITY)


def test_a_held_frame_is_matched_and_its_map_is_part_of_the_next_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in the nodes: a frame is matched before anybody knows whether the last answer stands for it."""
    shots = list(recorded(open_source(f"scene:fixed?size=96x128&frames={FRAMES}")))
    reference = MatchingStream(SAME_PLACE)
    expected = [reference.match(shot.image) for shot in shots]
    matched: list[int] = []
    given: dict[int, CacheMap | None] = {}
    match = MatchingStream.match

    def number(image: Any) -> int | None:
        return next((index for index, shot in enumerate(shots) if shot.image is image), None)

    def counted(stream: MatchingStream, image: Any) -> CacheMap:
        matched.append(1)
        return match(stream, image)

    def by_engine(own: PromisedAnswers, image: Any, cache_map: CacheMap | None, *_: Any) -> EngineResult:
        if (index := number(image)) is not None:
            given[index] = cache_map
        return own._engine.run(image, cache_map)

    monkeypatch.setattr(MatchingStream, "match", counted)
    monkeypatch.setattr(PromisedAnswers, "wants_maps", property(lambda own: True))
    monkeypatch.setattr(PromisedAnswers, "stands", lambda own, image: (number(image) or 0) % 2 == 1)
    monkeypatch.setattr(PromisedAnswers, "run", by_engine)
    plan = StreamPlan(
        own={BOUNDED: OwnSettings(config=EngineConfig(mode=Mode.BOUNDED, threads=1), matching=SAME_PLACE)},
        frames=FRAMES - 1, warm_up=1, contenders=(Contender.CHANNELS_LAST,), at_rate=False,
    )  # fmt: skip
    run = run_stream_benchmark(small_scenenet(), shots, plan)
    assert run.held[BOUNDED] == [True, False] * 2 + [True]
    assert len(matched) == FRAMES
    assert all(trace.stage_ms["match"] > 0 for trace in run.traces[BOUNDED])
    for index in (2, 4):
        folded, ours = fold(expected[index - 1 : index + 1]), given[index]
        assert ours is not None
        np.testing.assert_array_equal(ours.reusable, folded.reusable)


def test_mode_dense_pays_for_matching_but_the_dense_engine_that_others_are_compared_with_does_not() -> None:
    plan = StreamPlan(
        own={
            BOUNDED: OwnSettings(config=EngineConfig(mode=Mode.BOUNDED, threads=1)),
            "off": OwnSettings(config=EngineConfig(mode=Mode.DENSE, threads=1), matching=SAME_PLACE),
        },
        frames=3, warm_up=1, contenders=(Contender.EAGER,), at_rate=False,
    )  # fmt: skip
    run = run_stream_benchmark(small_scenenet(), recorded(open_source("scene:fixed?size=96x128&frames=4")), plan)
    matching_ms = [trace.stage_ms["match"] for trace in run.traces["off"]]
    assert all(took_ms > 0 for took_ms in matching_ms)
    without = [(took or 0.0) - match_ms for took, match_ms in zip(run.took_ms["off"], matching_ms, strict=True)]
    best = "off" if np.mean(without) < np.mean(run.took_ms["dense_eager"]) else "dense_eager"
    assert run.report["best_dense_fp32"] == best
    assert run.took_ms["dense"] == (without if best == "off" else run.took_ms["dense_eager"])
