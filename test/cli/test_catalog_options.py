# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""What ``cacheinf catalog build`` is asked for is checked before it works for minutes."""

from __future__ import annotations

from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from cacheinf_ros.catalog.build.techniques import Technique
from cacheinf_ros.cli.catalog import _bits, _techniques, build
from cacheinf_ros.errors import CatalogError


def test_what_is_asked_for_twice_is_made_once() -> None:
    """Two variants had one name, which was an error after all had been made and measured."""
    assert _bits("32, 8,32") == (32, 8)
    assert _techniques("factorise,factorise") == (Technique.FACTORISE,)


@pytest.mark.parametrize("bits", ["4", "32,", "a"])
def test_other_bits_are_refused_at_once(bits: str, tmp_path: Path) -> None:
    app = typer.Typer()
    app.command()(build)
    result = CliRunner().invoke(app, ["scenenet", "--bits", bits, "--out", str(tmp_path / "catalog")])
    assert isinstance(result.exception, CatalogError) and "expected some of 32, 16, 8" in str(result.exception)
    assert not (tmp_path / "catalog").exists()
