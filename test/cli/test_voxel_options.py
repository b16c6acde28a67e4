# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Commands refuse recordings whose cells are not those of the model, before they measure anything."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("onnx")

import typer
from made_clouds import POINTS, bag, cloud
from typer.testing import CliRunner
from voxel_network import card, network

from cacheinf_ros.catalog.build.catalog_frames import _spread
from cacheinf_ros.cli.bench.measured_options import MeasuredOptions
from cacheinf_ros.cli.replay_command import replay
from cacheinf_ros.errors import CatalogError, ConfigError
from cacheinf_ros.sources import open_source

FITS, OTHERS = "24x32x6,0..1,0..1,0..1", "24x32x5,0..1,0..1,0..1"


def test_a_measurement_needs_the_models_grid(tmp_path: Path) -> None:
    network(tmp_path, is_volume=False)
    assert MeasuredOptions(model=card(tmp_path), source=f"a.mcap?voxels={FITS}").load().card.pictures == 6
    with pytest.raises(ConfigError, match="make 5 pictures of 24x32 pixels, and card takes 6"):
        MeasuredOptions(model=card(tmp_path), source=f"a.mcap?voxels={OTHERS}").load()


def test_catalogs_are_not_built_of_points(tmp_path: Path) -> None:
    network(tmp_path, is_volume=False)
    model = MeasuredOptions(model=card(tmp_path), source="scene:fixed").load()
    with pytest.raises(CatalogError, match="catalogs are not for clouds of points"):
        _spread([f"a.mcap?voxels={FITS}"], model.card, 3, trained=False)


def test_nothing_is_played_in_other_cells(tmp_path: Path) -> None:
    network(tmp_path, is_volume=False)
    source = f"{bag(tmp_path / 'drive', points=cloud(POINTS))}?voxels={OTHERS}"
    assert len(list(open_source(source))) == 1
    app = typer.Typer()
    app.command()(replay)
    with pytest.raises(ConfigError, match="make 5 pictures of 24x32 pixels, and card takes 6"):
        CliRunner().invoke(app, [source, "--model", card(tmp_path)], catch_exceptions=False)
