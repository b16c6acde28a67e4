# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""``cacheinf replay`` where frames failed: the reason is told, the exit code is 1, and no page is made of nothing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer
from click.testing import Result
from typer.testing import CliRunner

pytest.importorskip("rclpy", reason="needs ROS 2")

from cacheinf_ros.cli import replay_command
from cacheinf_ros.harness.playback import Played
from cacheinf_ros.nodes.recorder import Recorded


def played(*errors: str, lost: int = 0) -> Played:
    results = [
        Recorded(
            stamp_ns=i, arrived_ns=i, model="", variant="", why="", mode="exact", where="robot", error=error,
            reuse_ratio=0.5, active_share=0.5, stage_ms={"engine": 7.0}, boxes=(), serialized=b"",
        )
        for i, error in enumerate(errors)
    ]  # fmt: skip
    count = len(results)
    return Played(
        published=count + lost, accepted=count, dropped=0, results=results, links={}, class_maps=[], promises={}
    )


def replayed(folder: Path, monkeypatch: pytest.MonkeyPatch, *errors: str, lost: int = 0) -> tuple[Result, bool]:
    """Run the command on such results; return what it prints, and whether it makes a page."""
    pages: list[object] = []
    monkeypatch.setattr(replay_command, "_play", lambda *_: (played(*errors, lost=lost), []))
    monkeypatch.setattr(replay_command, "_write_page", lambda *arguments: pages.append(arguments))
    app = typer.Typer()
    app.command()(replay_command.replay)
    result = CliRunner().invoke(app, ["scene:fixed", "--mode", "exact", "--out", str(folder)])
    return result, bool(pages)


def test_a_recording_without_an_answer_ends_with_the_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It ended with 0 and a p50 of nan, after a comparison with dense engines that failed in the same way."""
    result, has_page = replayed(tmp_path, monkeypatch, "no output named 'bbox'", "no output named 'bbox'", "late")
    assert result.exit_code == 1 and not has_page
    assert "3 of 3 results are errors. The first: no output named 'bbox'" in " ".join(result.output.split())
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["errors"] == 3 and report["error_texts"] == ["no output named 'bbox'", "late"]


def test_some_errors_are_told_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [f"error {i}" for i in range(30)]
    result, has_page = replayed(tmp_path, monkeypatch, "", *texts)
    assert result.exit_code == 1 and has_page and "30 of 31 results are errors" in " ".join(result.output.split())
    assert json.loads((tmp_path / "report.json").read_text())["error_texts"] == texts[:10]


def test_a_recording_that_is_answered_ends_well(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result, has_page = replayed(tmp_path, monkeypatch, "", "")
    assert result.exit_code == 0 and has_page and "error" not in result.output.replace("errors", "")


def test_frames_that_the_node_never_had_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only those that it had begun were counted, so that a recording with lost frames ended with 0."""
    result, has_page = replayed(tmp_path, monkeypatch, "", "", lost=3)
    assert result.exit_code == 1 and has_page
    assert "3 of 5 frames have no result" in " ".join(result.output.split())
