"""The engine benchmark: its errors are honest, its report is complete."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from cacheinf_ros.benchmarks.contenders import Contender
from cacheinf_ros.benchmarks.engine import run_engine_benchmark
from cacheinf_ros.benchmarks.quality import ErrorScale, agreement
from cacheinf_ros.benchmarks.timing import summary
from cacheinf_ros.engine import Mode
from cacheinf_ros.errors import SourceError
from cacheinf_ros.graph import load_model
from cacheinf_ros.sources import open_source

SMALL = Path(__file__).parents[1] / "networks" / "small.py"


def test_error_is_relative_to_the_spread_by_hand() -> None:
    """Outputs 0 and 4 of varied images spread by 2 around their mean 2; being off by 1 is an error of 0.5."""
    scale = ErrorScale([[np.array([[0.0, 0.0]])], [np.array([[4.0, 4.0]])]])
    assert scale.error([np.array([[3.0, 1.0]])], [np.array([[2.0, 2.0]])]) == pytest.approx(0.5)
    assert scale.error([np.array([[2.0, 2.0]])], [np.array([[2.0, 2.0]])]) == 0.0


def test_error_is_that_of_the_worst_output() -> None:
    scale = ErrorScale([[np.zeros(2), np.zeros(2)], [np.full(2, 2.0), np.full(2, 20.0)]])
    ours, exact = [np.full(2, 1.0), np.full(2, 5.0)], [np.zeros(2), np.zeros(2)]
    assert scale.error(ours, exact) == pytest.approx(1.0)


def test_agreement_of_vectors_and_maps() -> None:
    assert agreement([np.array([[0.1, 0.9]])], [np.array([[0.2, 0.3]])]) == 1.0
    ours = np.array([[[[1.0, 0.0]], [[0.0, 1.0]]]])  # classes 0, 1
    exact = np.array([[[[1.0, 1.0]], [[0.0, 0.0]]]])  # classes 0, 0
    assert agreement([ours], [exact]) == 0.5
    assert agreement([np.zeros(3)], [np.zeros(3)]) is None


def test_summary_by_hand() -> None:
    assert summary([1.0, 2.0, 3.0]) == {"p50": 2.0, "p95": 2.9, "mean": 2.0}


def test_report_is_complete_and_exact() -> None:
    model = load_model("scenenet", input_size=(96, 128))
    images = (frame.image for frame in open_source("scene:fixed?size=96x128&frames=8"))
    report = run_engine_benchmark(
        model,
        images,
        frames=6,
        mode=Mode.EXACT,
        threads=1,
        contenders=(Contender.EAGER, Contender.CHANNELS_LAST),
    )
    assert (report["model"], report["size"], report["mode"], report["frames"]) == ("scenenet", "96x128", "exact", 6)
    assert set(report["latency_ms"]) == {"cached", "dense_eager", "dense_channels_last"}
    assert all(set(values) == {"p50", "p95", "mean"} for values in report["latency_ms"].values())
    assert report["output_error"]["max"] <= 1e-5
    assert 0.5 < report["reuse_ratio"]["mean"] < 1 and 0 < report["active_flops"]["mean"] < 1
    assert report["speedup_vs_best_dense"] and report["speedup_vs_eager"] and report["cache_mb"] > 0


def test_onnx_contenders_compute_the_same(caplog: pytest.LogCaptureFixture) -> None:
    pytest.importorskip("onnxscript", reason="the bench extra is not installed")
    model = load_model(f"{SMALL}:mixed", input_size=(61, 47))
    from cacheinf_ros.benchmarks.contenders import build_contenders

    wanted = (Contender.EAGER, Contender.ONNXRUNTIME, Contender.OPENVINO)
    contenders = build_contenders(model, wanted, threads=1)
    assert set(contenders) == set(wanted), caplog.text
    image = np.random.default_rng(0).normal(size=(1, 3, 61, 47)).astype(np.float32)
    expected = contenders[Contender.EAGER](image)
    for contender in wanted[1:]:
        for ours, theirs in zip(contenders[contender](image), expected, strict=True):
            assert np.allclose(ours, theirs, atol=1e-4), contender


def test_too_few_frames_are_named() -> None:
    with pytest.raises(SourceError, match="the source has 1 frames"):
        run_engine_benchmark(
            load_model("scenenet", input_size=(96, 128)),
            iter([np.zeros((96, 128, 3), np.uint8)]),
            frames=5,
            mode=Mode.EXACT,
            threads=1,
            contenders=(),
        )
