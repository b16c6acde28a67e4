# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Reports call a recording by its file, and by its topic where the reference names one."""

from __future__ import annotations

from pathlib import Path

import pytest

from cacheinf_ros.sources import label_of


@pytest.mark.parametrize(
    ("reference", "label"),
    [
        ("drives/monday.mp4", "monday.mp4"),
        ("drives/monday.mcap:/thermal/image_raw?values=7000..9000", "monday.mcap:/thermal/image_raw?values=7000..9000"),
        ("drives/monday/", "monday"),
        ("scene:fixed?seed=1&noise=1", "scene:fixed?seed=1&noise=1"),
        ("drives/left.mp4 + bag:/depth", "left.mp4 + bag:/depth"),
    ],
)
def test_label(reference: str, label: str) -> None:
    assert label_of(reference) == label


def test_the_folder_here_has_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "pictures").mkdir()
    monkeypatch.chdir(tmp_path / "pictures")
    assert label_of(".") == "pictures"
