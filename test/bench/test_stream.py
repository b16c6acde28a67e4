# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The stream benchmark: ways are judged by the consensus of dense answers, and skipping gets bounded mode's time."""

from __future__ import annotations

import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import cv2
import numpy as np
import pytest
from networks.shared_models import small_scenenet
from pages import chromium, read_page, rendered

from cacheinf_ros.bench import dense_answers, timing
from cacheinf_ros.bench.contenders import Contender
from cacheinf_ros.bench.loss import LossMeter
from cacheinf_ros.bench.own_way import OwnSettings
from cacheinf_ros.bench.page import run_sections, stream_page, write_page
from cacheinf_ros.bench.policies import skipping
from cacheinf_ros.bench.server_way import ServerLink
from cacheinf_ros.bench.shots import recorded
from cacheinf_ros.bench.stream import run_stream_benchmark
from cacheinf_ros.bench.stream_plan import BOUNDED, StreamPlan
from cacheinf_ros.bench.stream_run import StreamRun
from cacheinf_ros.engine import DensePrecision, EngineConfig, Mode, decode
from cacheinf_ros.engine.decisions import box_decisions
from cacheinf_ros.engine.decisions.class_maps import ClassMaps
from cacheinf_ros.errors import SourceError
from cacheinf_ros.pipeline import runner
from cacheinf_ros.sources import open_source


def test_skipping_computes_as_often_as_the_time_allows() -> None:
    assert skipping([5.0] * 6, 10.0) == [0, 1, 1, 3, 3, 5]
    assert skipping([10.0] * 3, 10.0) == [0, 1, 2]
    assert skipping([0.0] * 3, 10.0) == [0, 0, 0]


def test_a_way_keeps_the_promise_or_does_not() -> None:
    meter = LossMeter(ClassMaps("scores", (1, 4)), 0.1)
    right, wrong = np.zeros((1, 4), np.uint8), np.ones((1, 4), np.uint8)
    for index in range(10):
        meter.add(
            right, {"never": right, "once": wrong if index == 9 else right, "twice": wrong if index > 7 else right}
        )
    assert [meter.loss(name)["kept"] for name in ("dense", "never", "once", "twice")] == [True, True, True, False]


def test_slow_frames_are_those_computed_or_all_where_every_answer_is_held() -> None:
    meter = LossMeter(ClassMaps("scores", (1, 4)), 0.1)
    took: dict[str, list[float | None]] = {"mixed": [1.0, 8.0], "held": [1.0, 2.0], "skipped": [None, None]}
    held = {"mixed": [True, False], "held": [True, True]}
    run = StreamRun(report={}, labels=(), stills=(), losses=meter, took_ms=took, held=held)
    assert [run.slowest_ms(name) for name in took] == [8.0, pytest.approx(1.95), 0.0]


def test_ways_are_judged_by_what_dense_answers_agree_on() -> None:
    meter = LossMeter(ClassMaps("scores", (1, 4)), 0.1)
    steady = np.zeros((1, 4), np.uint8)
    flickering = np.array([[0, 0, 0, 7]], np.uint8)
    for index in range(9):
        meter.add(flickering if index == 4 else steady, {"ours": steady})
    meter.add_sequence("stale", [4] * 9)
    report = meter.report("ours")
    assert report["consensus"]["ours"] == {"whole": 1.0, "where_it_moves": None}
    assert report["consensus"]["dense"]["whole"] == pytest.approx(1 - 1 / 36, abs=1e-4)
    assert report["consensus"]["stale"]["whole"] == 0.75
    assert report["loss"] == {
        "asked": 0.1,
        "measured": pytest.approx(-1 / 36, abs=1e-4),
        "where_it_moves": 0.0,
        "kept": True,
        "decisions": 36.0,
    }


def bounded(**options: Any) -> dict[str, OwnSettings]:
    return {BOUNDED: OwnSettings(config=EngineConfig(mode=Mode.BOUNDED, threads=1, **options))}


@pytest.fixture(scope="module")
def run() -> StreamRun:
    pytest.importorskip("onnxruntime")
    return run_stream_benchmark(
        small_scenenet(),
        recorded(open_source("scene:fixed?size=96x128&frames=40")),
        StreamPlan(
            own=bounded(dense_precision=DensePrecision.FLOAT32),
            frames=12,
            warm_up=28,
            contenders=(Contender.CHANNELS_LAST, Contender.ONNXRUNTIME_INT8),
        ),
    )


def test_the_report_is_complete(run: StreamRun) -> None:
    report = run.report
    assert (report["frames"], report["warm_up"], report["best_dense_fp32"]) == (12, 28, "dense_channels_last")
    assert report["best_dense"] in {"dense_channels_last", "onnxruntime_int8"}
    assert set(report["latency_ms"]) == {"bounded", "dense_channels_last", "onnxruntime_int8"}
    assert set(report["contender_losses"]["onnxruntime_int8"]) == set(report["loss"])
    assert {"dense", "bounded", "onnxruntime_int8", "every 2", "every 3", "frame_skip"} <= set(report["consensus"])
    assert set(report["loss"]) == {"asked", "measured", "where_it_moves", "kept", "decisions"}
    assert report["speedup_vs_best_dense"] > 0 and 0 <= report["held"] <= 1
    assert report["notes"]["bursts"].startswith("1, ")
    assert set(report["ways"]) == set(report["consensus"]) and report["nodes"] is None
    assert {"every 2 + flow", "every 3 + flow"} <= set(report["ways"])
    for way in report["ways"].values():
        assert set(way) == {"mean_ms", "streaming", "frames_behind", "missed_frames", "truth", "truth_streaming"}
        assert 0 <= way["streaming"]["whole"] <= 1 and 0 <= way["truth"]["recall"] <= 1
        assert 0 <= way["truth"]["f1"] <= 1 and way["truth_streaming"]["f1"] is not None
    dense, every_third = (report["ways"][name]["frames_behind"] for name in ("dense", "every 3"))
    # computing every frame is sooner only where it takes no longer than the camera, as on a machine with nothing beside
    assert dense < every_third or max(run.took_ms["dense"]) > 1e3 / report["fps"]
    assert every_third >= 1.0  # no answer comes before its frame


def test_frames_lose_what_the_way_loses(run: StreamRun) -> None:
    assert run.frame_losses("dense") == [0.0] * 12
    assert run.held_share("every 3") == pytest.approx(8 / 12) and run.held_share("dense") == 0
    assert max(run.frame_losses("every 3")) > 0 and run.loss("every 3").whole > 0


def test_the_page_shows_every_way_and_the_worst_frames(run: StreamRun, tmp_path: Path) -> None:
    file = tmp_path / "new" / "stream.html"
    write_page(stream_page(run, {"source": "<b>my</b> clip.mp4", "threads": "1"}), file)
    page = read_page(file)
    assert "scenenet on <b>my</b> clip.mp4" in page.text and "12 frames at 30 Hz" in page.text
    assert any(len(table) == 1 + len(run.report["consensus"]) for table in page.tables)
    player, worst = run_sections(run, "every 3")
    assert worst.pairs and player.player is not None
    for figure in (each for pair in worst.pairs for each in pair):
        assert cv2.imdecode(np.frombuffer(figure.content, np.uint8), cv2.IMREAD_COLOR).shape[2] == 3


def test_the_player_has_every_frame_with_all_answers(run: StreamRun, tmp_path: Path) -> None:
    file = tmp_path / "stream.html"
    write_page(stream_page(run, {"source": "clip.mp4", "threads": "1"}), file)
    shown = read_page(file).run
    assert shown["count"] == len(shown["stills"]) == len(shown["modes"]) == 12
    assert {"bounded", "dense", "every 2", "onnxruntime_int8"} <= {way["name"] for way in shown["ways"]}
    assert all(len(way["frames"]) == 12 for way in shown["ways"])
    lines = {line["name"]: line["values"] for chart in shown["charts"] for line in chart["lines"]}
    assert lines["dense"] == pytest.approx(run.took_ms["dense"], abs=1e-4)
    assert lines["lost, by all dense answers"][-1] == pytest.approx(run.loss(BOUNDED).whole, abs=1e-4)
    assert lines["allowed"] == [0.02] * 12


@pytest.mark.skipif(chromium() is None, reason="needs Chromium")
def test_a_browser_shows_the_frame_that_is_asked_for(run: StreamRun, tmp_path: Path) -> None:
    file = tmp_path / "stream.html"
    write_page(stream_page(run, {"source": "clip.mp4", "threads": "1"}), file)
    dom = rendered(file, tmp_path / "profile", "frame=7")
    assert "frame 7 of 12" in dom and dom.count('class="chart"') == len(read_page(file).run["charts"])


def test_every_way_pays_for_decoding_what_the_user_gets(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading for the judge once counted for dense engines alone: ten milliseconds of a segmenter's frame."""
    decoded = 0  # by a clock on which decoding takes an hour

    def hourly(*arguments: Any) -> Any:
        nonlocal decoded
        decoded += 1
        return decode(*arguments)

    for module in (dense_answers, runner, box_decisions):
        monkeypatch.setattr(module, "decode", hourly)
    clock = SimpleNamespace(
        perf_counter_ns=lambda: time.perf_counter_ns() + decoded * 3_600 * 10**9,
        process_time=time.process_time,
        sleep=time.sleep,
    )
    monkeypatch.setattr(timing, "time", clock)
    plan = StreamPlan(
        own={
            **bounded(max_loss=0.4),  # decodes what it judges
            "no loss": OwnSettings(config=EngineConfig(mode=Mode.BOUNDED, max_loss=0.0, threads=1)),
            "off": OwnSettings(config=EngineConfig(mode=Mode.DENSE, threads=1)),
            "exact": OwnSettings(config=EngineConfig(mode=Mode.EXACT, threads=1)),
        },
        frames=4, warm_up=2, contenders=(Contender.CHANNELS_LAST,), at_rate=False,
        fps=1e-7,  # no frame is delayed by the judging before it, which takes hours, too
    )  # fmt: skip
    run = run_stream_benchmark(small_scenenet(), recorded(open_source("scene:fixed?size=96x128&frames=6")), plan)
    for name in ("dense", "off", "exact", "no loss", BOUNDED):
        assert all(took is not None and 3.6e6 <= took < 2 * 3.6e6 for took in run.took_ms[name]), name


def test_what_was_interrupted_goes_on(tmp_path: Path) -> None:
    class Stopped(Exception):
        pass

    def stop(done: int, total: int) -> None:
        if done == 6:
            raise Stopped

    model = small_scenenet()
    plan = StreamPlan(
        own=bounded(), frames=8, warm_up=2, contenders=(Contender.CHANNELS_LAST,), keep_in=tmp_path / "kept",
        is_brief=True, server=ServerLink(mbit_s=20.0, round_trip_ms=3.0, server_ms=5.0),
    )  # fmt: skip
    source = "scene:fixed?size=96x128&frames=10"
    with pytest.raises(Stopped):
        run_stream_benchmark(model, recorded(open_source(source)), plan, progress=stop)
    kept = sorted(tmp_path.rglob("*.npz"))
    assert len(kept) == 6
    resumed = run_stream_benchmark(model, recorded(open_source(source)), plan)
    assert len(resumed.losses) == 8 and not list(tmp_path.rglob("*.npz"))
    assert all(took > 8.0 for took in resumed.took_ms["server"] if took is not None)


def test_too_few_frames_are_named() -> None:
    with pytest.raises(SourceError, match="has 10 frames; the benchmark needs at least 30"):
        run_stream_benchmark(
            small_scenenet(),
            recorded(open_source("scene:fixed?size=96x128&frames=10")),
            StreamPlan(own=bounded(), frames=12, warm_up=28),
        )
