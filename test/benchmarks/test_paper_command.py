# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""``cacheinf bench paper``: what takes no time of it, and how it is shown."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import cv2
import pytest
from catalogs import made_catalog
from typer.testing import CliRunner

from benchmarks.catalog import paper_figures
from benchmarks.offload import paper_tables
from benchmarks.offload.equation_8 import Equation8
from cacheinf_ros.catalog.variant import Cost, Place
from cacheinf_ros.cli.main import app
from cacheinf_ros.engine.rematerialisation.assess import Assessment


def test_the_catalogs_figures_of_a_catalog(tmp_path: Path) -> None:
    """Loading takes three times what executing does, as the catalog says."""
    costs = {Place.DEVICE: Cost(energy_j=2.0, latency_ms=5.0, memory_bytes=10**6, load_energy_j=6.0, load_ms=7.0)}
    made_catalog(tmp_path / "room", "room", costs)
    for number in ("4", "5", "6"):
        arguments = ["--figure", number, "--data", str(tmp_path / "room")]
        written = ["--json", str(tmp_path / "out.json"), "--plots", str(tmp_path)]
        result = CliRunner().invoke(app, ["bench", "paper", "mcdnn", *arguments, *written])
        assert result.exit_code == 0, result.output
        assert cv2.imread(str(tmp_path / f"mcdnn_figure_{number}.png")) is not None
        found = json.loads((tmp_path / "out.json").read_text())["figures"][number]
        points = found["curves"]["room"]
        if number == "5":
            assert found["load_over_execute"]["room"] == pytest.approx(3.0)
        if number == "6":
            assert points[0]["load_ms"] == 7.0 and points[0]["device_ms"] == 5.0


def test_memory_is_still_there() -> None:
    result = CliRunner().invoke(app, ["bench", "paper", "memory", "--figure", "3"])
    assert result.exit_code == 0 and "size: 128" in result.output
    assert CliRunner().invoke(app, ["bench", "paper", "cacheinf", "--table", "9"]).exit_code != 0


def test_latency_by_reuse_ratio_by_hand(tmp_path: Path) -> None:
    """Of 0.1 and 0.15, of 0.85, and of 0.95."""
    points = paper_tables._by_reuse([(0.1, 10.0), (0.15, 20.0), (0.85, 5.0), (0.95, 1.0)])
    assert [point["ms"] for point in points] == [15.0, 5.0, 1.0]
    found: dict[str, Any] = dict.fromkeys(paper_tables.SYSTEMS, points)
    paper_tables.draw(6, found, tmp_path / "six.png")
    assert cv2.imread(str(tmp_path / "six.png")) is not None


def test_watts_are_joules_over_the_time() -> None:
    figures = [{"energy_j": 2.0, "latency_ms": {"mean": 500.0}}, {"energy_j": 1.0, "latency_ms": {"mean": 100.0}}]
    assert paper_tables._energy(figures) == (4.0, 10.0, 2.0, 1.0)


def test_every_figure_can_be_drawn() -> None:
    assert set(paper_figures._DRAWN) == set(paper_figures.FIGURES) == set(paper_figures._FIGURES)


def test_equation_8_weighs_updates() -> None:
    """80 us of computing, and 400 bytes to update at 10 bytes per us, over 100 us."""
    goal = Equation8(bytes_per_us=10.0, microseconds=100.0)
    assert goal(Assessment(microseconds=80.0, cache_bytes=400, arena_bytes=0)) == pytest.approx(1.2)
