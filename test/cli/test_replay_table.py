# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""What ``cacheinf replay`` prints about a recording."""

from __future__ import annotations

from pathlib import Path

import pytest

from cacheinf_ros.cli.replay_command import _print

REPORT = {
    "source": "clips[night]", "frames": 3, "results": 3, "dropped": 0, "errors": 0, "learning": 0,
    "reuse_ratio": {"mean": 0.5}, "active_flops": {"mean": 0.5}, "latency_ms": None,
}  # fmt: skip


def test_brackets_in_names_are_printed_as_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    """They are markup to the library that prints tables."""
    _print(REPORT, Path("a[/x]"))
    printed = capsys.readouterr().out
    assert "clips[night]" in printed and "results: a[/x]/results" in printed


def test_times_of_no_frame_are_left_out_and_the_first_error_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    failed = {"errors": 3, "error_texts": ["no output [named] 'bbox'", "another"]}
    _print({**REPORT, **failed}, Path("out"))
    printed = " ".join(capsys.readouterr().out.split())
    assert "nan" not in printed and "│ n/a │ n/a │" in printed
    assert "3 of 3 results are errors. The first: no output [named] 'bbox'" in printed
