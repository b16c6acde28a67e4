# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""``cacheinf catalog share``, from pictures to heads."""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from cacheinf_ros.catalog.heads.head_folder import read_heads
from cacheinf_ros.cli.catalog_share import share
from cacheinf_ros.errors import ConfigError

TINY = f"{Path(__file__).parents[1] / 'networks' / 'tiny.py'}:tiny"


def _run(*words: str) -> str:
    app = typer.Typer()
    app.command()(share)
    result = CliRunner().invoke(app, words, catch_exceptions=True, env={"COLUMNS": "160"})
    if result.exception is not None:
        raise result.exception
    return " ".join(result.stdout.split())


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    for attribute, levels in {"lamp": {"off": 20, "on": 200}, "door": {"open": 60, "shut": 140}}.items():
        for name, level in levels.items():
            (tmp_path / "data" / attribute / name).mkdir(parents=True)
            for number in range(12):
                image = np.clip(rng.normal(level, 10, (48, 64, 3)), 0, 255).astype(np.uint8)
                cv2.imwrite(str(tmp_path / "data" / attribute / name / f"{number}.png"), image)
    return tmp_path / "data"


def test_heads_from_a_folder_of_pictures(pictures: Path, tmp_path: Path) -> None:
    said = _run(TINY, "--data", str(pictures), "--heads", "lamp, door", "--out", str(tmp_path / "heads"))
    assert "lamp" in said and "off, on" in said and "times the operations of" in said
    found = read_heads(tmp_path / "heads")
    assert [head.name for head in found.heads] == ["lamp", "door"]
    assert min(head.accuracy for head in found.heads) > 0.9


def test_attributes_that_are_not_there_are_named(pictures: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"attribute 'roof': .* has door, lamp"):
        _run(TINY, "--data", str(pictures), "--heads", "roof", "--out", str(tmp_path / "heads"))
    with pytest.raises(ConfigError, match="scenes has photograph, object, crowd, light"):
        _run(TINY, "--heads", "roof", "--out", str(tmp_path / "heads"))


def test_heads_from_built_in_scenes_at_another_cut(tmp_path: Path) -> None:
    said = _run(TINY, "--heads", "light", "--scenes", "60", "--cut-at", "relu", "--out", str(tmp_path / "heads"))
    assert "dark, dim, bright" in said
    found = read_heads(tmp_path / "heads")
    assert found.trunk.name.endswith("@relu") and found.heads[0].accuracy > 0.5
