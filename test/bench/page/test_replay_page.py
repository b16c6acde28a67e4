# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The page of a replay: its promise is about the frames after bounded mode has learnt, and slow frames cost energy."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from networks.shared_models import small_scenenet

from cacheinf_ros.bench.loss import LossMeter
from cacheinf_ros.bench.page import replay_page as page_of_replay
from cacheinf_ros.bench.page.page import Page
from cacheinf_ros.bench.stream_run import StreamRun
from cacheinf_ros.bench.trace import FrameTrace, Still
from cacheinf_ros.energy import PowerModel
from cacheinf_ros.engine.decisions import BoxDecisions, SoftBoxes
from cacheinf_ros.engine.decisions.class_maps import ClassMaps

LEARNING = 32
SHAPE = (1, 4)


def replayed(frames: int, *, asked: float, node_ms: float = 40.0) -> StreamRun:
    """Make a replay in which one pixel of four is wrong on every frame after the first 32, half of which are held."""
    meter = LossMeter(ClassMaps("scores", SHAPE), asked)
    wrong = np.array([[1, 0, 0, 0]], np.uint8)
    for index in range(frames):
        meter.add(np.zeros(SHAPE, np.uint8), {"nodes": wrong if index >= LEARNING else np.zeros(SHAPE, np.uint8)})
    trace = FrameTrace(mode="bounded", asked=asked)
    return StreamRun(
        report={"model": "m", "size": "1x4", "frames": frames, "threads": 1, "fps": 25.0, "best_dense_fp32": "torch"},
        labels=(), stills=[Still.of(np.zeros((24, 32, 3), np.uint8))] * frames, losses=meter,
        took_ms={"dense": [20.0] * frames, "nodes": [node_ms] * frames},
        held={"nodes": [index >= LEARNING and index % 2 == 0 for index in range(frames)]},
        traces={"nodes": [trace] * frames},
    )  # fmt: skip


def page(run: StreamRun, mode: str = "bounded") -> Page:
    played = SimpleNamespace(published=run.report["frames"], unanswered=0)
    return page_of_replay(run, "nodes", played, {"source": "clip.mp4", "mode": mode})


def test_the_promise_is_judged_without_the_frames_that_it_was_learnt_from() -> None:
    """Over all 64 frames an eighth is wrong; of those after the first 32 it is a quarter."""
    verdict = page(replayed(64, asked=0.2)).verdict
    assert (
        "The answers after the first 32 frames are right 0.250 less often than dense ones (0.000 where things move)."
        in verdict
    )
    assert "At most 0.2 was promised: broken." in verdict
    assert (
        "For 50% of the frames after the first 32 frames the last answer still stood, and nothing was computed."
        in verdict
    )


def test_verdict_and_table_are_about_the_same_frames() -> None:
    """The table had the loss, times and held share of all 64 frames beside a verdict on the last 32."""
    run = replayed(64, asked=0.2)
    run.took_ms["nodes"][:LEARNING] = [400.0] * LEARNING  # type: ignore[index]
    shown = page(run)
    assert "of which the first 32 are in no figure" in shown.subtitle
    assert any("A frame takes 40.0 ms" in sentence for sentence in shown.verdict)
    by_title = {section.title: section for section in shown.sections}
    rows = {row[0]: row[1:] for row in by_title["The ways to answer this camera"].rows}
    assert rows["nodes"] == ("40.0", "40.0", "2.00", "0.250", "0.000", "50%")
    joules = {way: float(value) for way, value in by_title["Energy"].rows}
    assert joules["nodes"] == pytest.approx(PowerModel().joules(40.0, 40.0, 0.0, 0.0), abs=1e-3)
    assert sum(int(row[1]) for row in by_title["Where the time went"].rows) == 64 - LEARNING
    player = by_title["Frame by frame"].player
    assert player is not None and player.data["count"] == 64
    lines = {line["name"]: line["values"] for chart in player.data["charts"] for line in chart["lines"]}
    assert lines["lost, by all dense answers"][:LEARNING] == [None] * LEARNING
    assert lines["lost, by all dense answers"][-1] == 0.25
    assert all(frame >= LEARNING for frame in player.data["worst"])


def test_where_nothing_is_found_nothing_is_said_of_a_promise() -> None:
    meter = LossMeter(BoxDecisions(small_scenenet().card), 0.2)
    none = SoftBoxes.none()
    for _ in range(64):
        meter.add(none, {"nodes": none})
    verdict = page(replace(replayed(64, asked=0.2), losses=meter)).verdict
    assert any("Hardly anything is found" in sentence for sentence in verdict)
    assert not any("was promised" in sentence for sentence in verdict)


def test_nothing_is_concluded_of_a_promise_from_few_frames() -> None:
    assert not any("was promised" in sentence for sentence in page(replayed(63, asked=0.2)).verdict)


@pytest.mark.parametrize("node_ms", [20.0, 40.0])
def test_nothing_is_said_of_a_cache_that_was_not_used(node_ms: float) -> None:
    """A replay in mode dense was told that the cache does not pay."""
    run = replayed(64, asked=0.2, node_ms=node_ms)
    said = {
        mode: page(replace(run, traces={"nodes": [FrameTrace(mode=mode)] * 64}), mode).verdict[0]
        for mode in ("exact", "dense")
    }
    assert said["exact"] == f"{said['dense'].removesuffix('.')}: the cache does not pay here."
    assert "the fastest dense engine (torch, 20.0 ms)" in said["dense"]


def test_a_way_that_is_slower_than_the_camera_takes_more_energy() -> None:
    """No frame of a recording is dropped: 80 ms of work take 80 ms, not the 40 ms of a camera's period."""
    (energy,) = (
        section for section in page(replayed(64, asked=0.2, node_ms=80.0)).sections if section.title == "Energy"
    )
    joules = {way: float(value) for way, value in energy.rows}
    assert joules["nodes"] == pytest.approx(PowerModel().joules(80.0, 80.0, 0.0, 0.0), abs=1e-3)
    assert joules["dense"] == pytest.approx(PowerModel().joules(40.0, 20.0, 0.0, 0.0), abs=1e-3)
