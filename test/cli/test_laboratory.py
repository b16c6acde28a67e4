# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Experiments of the papers run from a checkout; elsewhere their names are known."""

from __future__ import annotations

from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from benchmarks.commands import COMMANDS as EXPERIMENTS
from cacheinf_ros.cli.laboratory import COMMANDS, LaboratoryError, add_laboratory, in_checkout, laboratory


def test_names_are_the_same_everywhere() -> None:
    assert list(COMMANDS) == list(EXPERIMENTS)


def test_this_is_a_checkout() -> None:
    assert in_checkout()
    assert callable(laboratory("benchmarks.memory").run_placement_benchmark)


def test_a_folder_of_somebody_else_is_no_laboratory(tmp_path: Path) -> None:
    (tmp_path / "benchmarks").mkdir()
    (tmp_path / "benchmarks" / "__init__.py").touch()
    assert not in_checkout(tmp_path)
    with pytest.raises(LaboratoryError, match=r"benchmarks\.memory is not installed.*make build"):
        laboratory("benchmarks.memory", tmp_path)


@pytest.mark.parametrize("command", COMMANDS)
def test_without_a_checkout_each_command_says_what_it_needs(command: str, tmp_path: Path) -> None:
    bench = typer.Typer()
    add_laboratory(bench, tmp_path)
    assert "Needs a checkout" in " ".join(CliRunner().invoke(bench, [command, "--help"]).output.split())
    result = CliRunner().invoke(bench, [command, "--traces", "2", "file.json"])
    assert isinstance(result.exception, LaboratoryError)
    assert f"cacheinf bench {command} is not installed" in str(result.exception)
