# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Parts of ``bench catalog``, with short days."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import cv2
import pytest
from typer.testing import CliRunner

from benchmarks.catalog.paper_catalogs import FACES, Machines, paper_catalogs
from benchmarks.catalog.plot import PLOTS
from benchmarks.catalog.sections import run_catalog_benchmark
from benchmarks.catalog.setting import Setting
from benchmarks.catalog.simulated_days import Scheme, of_scheme, with_sending
from cacheinf_ros.catalog.variant import Catalog, Cost, Place, Variant
from cacheinf_ros.cli.all_commands import app
from cacheinf_ros.errors import CatalogError

SHORT = Setting(
    copies=2, requests=600, duration_s=600.0, cache_bytes=300 * 10**6, energy_j=300.0, money=2 / 1800, traces=1,
    load_rates=(0.03, 0.3), sending_j=(0.5,), sending_budget_j=111.0, specialised=(0.0, 1.0),
)  # fmt: skip


def test_costs_follow_from_the_machines() -> None:
    """Costs agree with numbers worked out by hand.

    2 GFLOP at 15 GFLOP/s and 10 W take 4/3 J; the cloud takes 4 ms and 2 ms of 1.8e-7 dollars. Where the model is
    split, 0.9 of it is computed here.
    """
    machines = Machines(device_gflop_s=15.0, cloud_gflop_s=1000.0, cloud_call_ms=4.0, cloud_dollars_ms=1.8e-7)
    costs = FACES.catalog("m", machines).variants[0].costs
    assert costs[Place.DEVICE].energy_j == pytest.approx(4 / 3)
    assert costs[Place.DEVICE].load_energy_j == pytest.approx(4 + 0.025 * 390)
    assert costs[Place.CLOUD].money == pytest.approx(6 * 1.8e-7) and costs[Place.CLOUD].energy_j == 0
    assert costs[Place.SPLIT].energy_j == pytest.approx(1.2)
    assert costs[Place.SPLIT].money == pytest.approx(4.2 * 1.8e-7)


def test_schemes() -> None:
    """The variant at the knee is found in a catalog worked out by hand.

    The ends are 1 and 1000 bytes, and accuracies of 0.5 and 0.9. 10 bytes are a third of the way and 0.8 is three
    quarters; 100 bytes are two thirds, and 0.82 is less than a sixth more.
    """
    variants = tuple(
        Variant(name=name, accuracy=accuracy, technique=technique, costs={Place.DEVICE: Cost(memory_bytes=size)})
        for name, accuracy, technique, size in (
            ("large", 0.95, "t", 9000), ("original", 0.9, "", 1000), ("more", 0.82, "t", 100), ("knee", 0.8, "t", 10),
            ("worse", 0.7, "t", 10), ("small", 0.5, "t", 1),
        )
    )  # fmt: skip
    catalog, setting = Catalog(model="m", variants=variants), Setting(cache_bytes=2000)
    names = {scheme: [v.name for v in of_scheme(catalog, scheme, setting).variants] for scheme in Scheme}
    assert names[Scheme.ORIGINAL] == ["original"] and names[Scheme.BEST] == ["knee"] and len(names[Scheme.ALL]) == 6


def test_sending_adds_to_what_leaves_the_device() -> None:
    catalog = paper_catalogs()[0]
    before, after = catalog.variants[0].costs, with_sending(catalog, 0.5).variants[0].costs
    added = {place: after[place].energy_j - before[place].energy_j for place in Place}
    assert added == pytest.approx({Place.DEVICE: 0.0, Place.SPLIT: 0.5, Place.CLOUD: 0.5})


def test_more_variants_serve_more_requests(tmp_path: Path) -> None:
    report = run_catalog_benchmark(SHORT, ["figure11", "figure12"])
    schemes = report["figure11"]["schemes"]
    served = [schemes[scheme.value]["0.3"]["served"]["mean"] for scheme in Scheme]
    assert max(served[:2]) < min(served[2:])
    policies = report["figure12"]["policies"]
    sent, planned = (policies[f"{name}, 0.5 J"] for name in ("server_first", "accuracy"))
    assert planned["1.0"]["served"]["mean"] > sent["1.0"]["served"]["mean"]
    for name, found in report.items():
        PLOTS[name](found, tmp_path / f"{name}.png")
        assert cv2.imread(str(tmp_path / f"{name}.png")) is not None


def test_processes_change_nothing() -> None:
    short = replace(SHORT, requests=200, load_rates=(0.3,))
    reports = [run_catalog_benchmark(replace(short, workers=workers), ["figure11"]) for workers in (1, 2)]
    for report in reports:
        for points in report["figure11"]["schemes"].values():
            for figures in points.values():
                del figures["day_s"]
    assert reports[0] == reports[1]


def test_sections_are_known() -> None:
    with pytest.raises(CatalogError, match="known are figure11, figure12"):
        run_catalog_benchmark(SHORT, ["figure99"])


def test_the_command_is_there() -> None:
    result = CliRunner().invoke(app, ["bench", "catalog", "--help"])
    assert result.exit_code == 0
