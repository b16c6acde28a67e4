# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""``cacheinf advise`` as a user types it, and the files that it leaves to look at and to start."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from pages import read_page
from typer.testing import CliRunner

from cacheinf_ros.cli.all_commands import app
from cacheinf_ros.errors import ConfigError


def test_advice_is_shown_and_can_be_started(tmp_path: Path) -> None:
    source = "scene:fixed?size=96x128&frames=8"
    words = [
        "advise",
        source,
        "scenenet",
        "--size",
        "96x128",
        "--frames",
        "6",
        "--warm-up",
        "2",
        "--no-int8",
        "--server",
        "20,3,5",
    ]
    done = CliRunner().invoke(app, [*words, "--threads", "1", "--out", str(tmp_path)], catch_exceptions=False)
    assert done.exit_code == 0

    advice = json.loads((tmp_path / "advice.json").read_text())["advice"]
    names = {way["way"] for way in advice["ways"]}
    assert {"dense", "server", "off", "every 2", "every 3", "bounded", "bounded 0.01", "bounded 0.05", "exact"} <= names
    assert advice["recommended"] in names and advice["target_met"]
    assert any(("Caching pays" if advice["caching_pays"] else "not worth it") in line for line in advice["verdict"])
    parameters = yaml.safe_load((tmp_path / "params.yaml").read_text())["/**"]["ros__parameters"]
    assert parameters["model"] == "scenenet" and parameters["input_size"] == "96x128"
    assert not (tmp_path / "unfinished").exists()
    assert (tmp_path / "pareto.png").read_bytes().startswith(b"\x89PNG")

    page = read_page(tmp_path / "advice.html")
    shown = " ".join(done.stdout.split())
    for sentence in advice["verdict"]:
        assert sentence in page.text and sentence in shown
    assert f"params_file:={tmp_path / 'params.yaml'}" in page.text
    assert len(page.tables[1]) == 1 + len(names) and page.run["count"] == 6
    assert all(content.startswith((b"\x89PNG", b"\xff\xd8")) for content in page.images.values())


def test_a_target_that_nobody_understands_is_refused_before_anything_is_loaded() -> None:
    with pytest.raises(ConfigError, match="5 volts"):
        CliRunner().invoke(
            app, ["advise", "nothing.mp4", "nothing.onnx", "--target", "5 volts"], catch_exceptions=False
        )
