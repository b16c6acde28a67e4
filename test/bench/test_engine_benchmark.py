# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The engine benchmark: its report is complete, and what should be exact is exact."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from networks.shared_models import mixed_model, small_scenenet

from cacheinf_ros.bench.contenders import Contender, build_contenders
from cacheinf_ros.bench.engine_benchmark import run_engine_benchmark, speed
from cacheinf_ros.bench.gpu_contenders import GpuContender
from cacheinf_ros.bench.race import Log
from cacheinf_ros.bench.shots import Change, Shot, changing, recorded
from cacheinf_ros.bench.timing import summary
from cacheinf_ros.engine import EngineConfig, Mode, matching_for
from cacheinf_ros.errors import SourceError
from cacheinf_ros.sources import open_source

SIZE = (96, 128)


def test_summary_by_hand() -> None:
    assert summary([1.0, 2.0, 3.0]) == {"p50": 2.0, "p95": 2.9, "mean": 2.0}


def measured(mode: Mode, frames: int = 6, source: str = "scene:fixed", **options: Any) -> dict[str, Any]:
    return run_engine_benchmark(
        small_scenenet(),
        recorded(open_source(f"{source}?size=96x128&frames=14")),
        config=EngineConfig(mode=mode, threads=1, **options),
        matching=matching_for(mode),
        frames=frames,
        calibration_frames=3,
        contenders=(Contender.EAGER, Contender.CHANNELS_LAST, GpuContender.ONNXRUNTIME),
    )


def test_report_is_complete_and_exact() -> None:
    report = measured(Mode.EXACT)
    assert (report["model"], report["size"], report["mode"], report["frames"]) == ("scenenet", "96x128", "exact", 6)
    assert set(report["latency_ms"]) == {"cached", "dense_eager", "dense_channels_last"}
    assert "does not run on device cpu" in report["not_measured"]["onnxruntime_cuda"]
    assert all(set(values) == {"p50", "p95", "mean"} for values in report["latency_ms"].values())
    assert report["output_error"]["max"] <= 1e-5 and report["engine_error"]["max"] <= 1e-5
    assert report["matching_error"] == {"mean": 0.0, "max": 0.0}
    assert report["agreement"] == dict.fromkeys(("engine", "changed", "output"))  # boxes are compared by F1
    assert report["missed_change"] < 1e-4 and report["flicker"]["mean"] > 0.01
    assert report["f1"] == {"engine": 1.0, "output": 1.0}
    assert report["f1_truth"]["cached"] == report["f1_truth"]["dense"]
    assert 0.5 < report["reuse_ratio"]["mean"] < 1 and 0 < report["active_flops"]["mean"] < 1
    assert report["speedup_vs_best_dense"] and report["speedup_vs_eager"] and report["cache_mb"] > 0
    assert report["loss"]["kept"] and set(report["consensus"]) == {"dense", "cached", "frame_skip"}
    assert report["cache_maps"]["matcher"] == "identity" and report["cache_maps"]["threshold"] == "inf"


def test_efficiency_is_the_share_of_flops_over_the_share_of_time() -> None:
    report = measured(Mode.EXACT, frames=3)
    best = report["latency_ms"][report["best_dense_fp32"]]["mean"]
    expected = report["active_flops"]["mean"] * best / report["latency_ms"]["cached"]["mean"]
    assert report["efficiency"] == pytest.approx(expected, rel=0.01)
    assert report["speedup_vs_best_dense"] == pytest.approx(best / report["latency_ms"]["cached"]["mean"], rel=0.01)
    assert report["speedup_vs_best_dense_fp32"] == report["speedup_vs_best_dense"]


def test_lower_precision_counts_where_it_keeps_the_promise() -> None:
    full = {"dense_eager": [10.0]}
    log = Log(
        latency_ms={"cached": [1.0], "openvino_bf16": [5.0], "openvino_int8": [2.0], **full}, active=[0.5], reuse=[0.5]
    )
    for keeping, best, speedup in (
        ([], "dense_eager", 10.0),
        (["openvino_bf16"], "openvino_bf16", 5.0),
        (["openvino_bf16", "openvino_int8"], "openvino_int8", 2.0),
    ):
        report = speed(log, keeping)
        assert (report["best_dense"], report["speedup_vs_best_dense"]) == (best, speedup)
        assert (report["best_dense_fp32"], report["speedup_vs_best_dense_fp32"]) == ("dense_eager", 10.0)
        assert report["efficiency"] == 5.0 and set(report["latency_ms"]) == set(log.latency_ms)


def test_policies_get_the_cached_engines_time() -> None:
    policies = measured(Mode.EXACT)["policies"]
    assert 0 < policies["computed"] <= 1
    for name in ("frame_skip", "output_warp"):
        assert set(policies[name]) == {"output_error", "agreement", "f1"}
        assert policies[name]["output_error"]["mean"] >= 0


def test_bounded_mode_is_calibrated_on_frames_that_do_not_count() -> None:
    report = measured(Mode.BOUNDED, max_error=0.1, max_missed=0.5, audit_every=2)
    assert report["calibration"]["frames"] == 3 and report["calibration"]["ms"] > 0
    assert (report["max_error"], report["max_missed"], report["frames"]) == (0.1, 0.5, 6)
    assert report["engine_error"]["max"] < 0.3
    assert set(report["audits"]) == {"latency_ms", "engine_error", "missed_change"}


def test_deepcache_may_err_but_dense_may_not() -> None:
    report = measured(Mode.DEEPCACHE, source="scene:pan")
    assert report["matching_error"]["max"] > 0 and report["output_error"]["max"] > 1e-3
    dense = measured(Mode.DENSE, frames=2)
    assert dense["output_error"]["max"] <= 1e-5 and dense["reuse_ratio"]["mean"] == 0
    assert dense["missed_change"] is None and dense["agreement"]["changed"] is None


@pytest.mark.parametrize("pattern", ["blob", "scatter"])
def test_changed_frames_bring_their_maps(pattern: str) -> None:
    report = run_engine_benchmark(
        mixed_model(),
        changing(Change.parse(f"0.05:{pattern}"), (61, 47)),
        config=EngineConfig(threads=1),
        matching=None,
        frames=3,
        calibration_frames=0,
        contenders=(),
    )
    assert "no matcher" in report["cache_maps"]
    assert report["output_error"]["max"] <= 1e-5
    assert report["reuse_ratio"]["mean"] == pytest.approx(0.95, abs=0.02)
    assert report["best_dense"] is None and report["efficiency"] is None and report["policies"] is None


def test_onnx_contenders_compute_the_same(caplog: pytest.LogCaptureFixture) -> None:
    model = mixed_model()
    wanted = (Contender.EAGER, Contender.ONNXRUNTIME, Contender.OPENVINO)
    contenders = build_contenders(model, wanted, threads=1).runs
    assert set(contenders) == set(wanted), caplog.text
    image = np.random.default_rng(0).normal(size=(1, 3, 61, 47)).astype(np.float32)
    expected = contenders[Contender.EAGER](image)
    for contender in wanted[1:]:
        for ours, theirs in zip(contenders[contender](image), expected, strict=True):
            assert np.allclose(ours, theirs, atol=1e-4), contender


@pytest.mark.parametrize(("mode", "needed"), [(Mode.EXACT, 3), (Mode.BOUNDED, 7)])
def test_too_few_frames_are_named(mode: Mode, needed: int) -> None:
    shots = (Shot(image=np.zeros((*SIZE, 3), np.uint8)) for _ in range(2))
    with pytest.raises(SourceError, match=f"has 2 frames; the benchmark needs at least {needed}"):
        run_engine_benchmark(
            small_scenenet(),
            shots,
            config=EngineConfig(mode=mode, threads=1),
            matching=matching_for(mode),
            frames=5,
            calibration_frames=4,
            contenders=(),
        )
