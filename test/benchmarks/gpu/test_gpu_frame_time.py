# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The command that predicts frames on a GPU; its measurements need one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
import typer
from typer.testing import CliRunner

from benchmarks.gpu.frame_time import SHARES, main
from benchmarks.gpu.measured_frames import measured_ms
from cacheinf_ros.engine.engine_config import Precision
from cacheinf_ros.errors import EngineError
from cacheinf_ros.graph import load_model

APP = typer.Typer()
APP.command()(main)
YOLO = "benchmarks.gpu.yolo_shape:Yolo8s"


def test_a_table_and_its_figures(tmp_path: Path) -> None:
    path = tmp_path / "frames.json"
    options = ["--models", f"scenenet,{YOLO}", "--sizes", "96x128", "--device", "orin-agx,h100", "--json", str(path)]
    result = CliRunner().invoke(APP, options)
    assert result.exit_code == 0, result.output
    assert "Jetson AGX Orin 64 GB: predicted" in result.output
    report = json.loads(path.read_text())
    assert not report["measured"]
    rows = report["frames"]
    assert [row["changed"] for row in rows] == [*SHARES] * 4
    assert all(0 < row["bfloat16_ms"] < row["float32_ms"] for row in rows)
    assert all(sum(row["bfloat16_us_by_bound"].values()) == pytest.approx(1e3 * row["bfloat16_ms"]) for row in rows)


def test_a_device_without_figures_is_no_device() -> None:
    result = CliRunner().invoke(APP, ["--device", "abacus"])
    assert result.exit_code == 2 and "no figures of abacus" in result.output


def test_what_is_measured_stands_beside_one_device() -> None:
    result = CliRunner().invoke(APP, ["--measure"])
    assert result.exit_code == 2 and "--device" in result.output


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu_nothing_is_measured() -> None:
    with pytest.raises(EngineError, match="cuda"):
        measured_ms(load_model("scenenet", input_size=(96, 128)), SHARES, Precision.FLOAT32)
