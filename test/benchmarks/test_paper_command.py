# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""``cacheinf bench paper``: the parts that take no time, and how they are shown."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cv2
import pytest
from catalogs import made_catalog
from typer.testing import CliRunner

from benchmarks.catalog import beside_paper, paper_figures, published
from benchmarks.catalog.specialising_time import specialising_times
from benchmarks.offload import paper_tables
from benchmarks.offload.equation_8 import Equation8
from benchmarks.offload.published import PUBLISHED
from benchmarks.papers import command
from cacheinf_ros.catalog.variant import Cost, Place
from cacheinf_ros.cli.all_commands import app
from cacheinf_ros.engine.rematerialisation.assess import Assessment
from cacheinf_ros.errors import CatalogError

_MEASURED = (*paper_tables.SYSTEMS.values(), *paper_tables.FOLLOWING.values())


def test_the_catalogs_figures_of_a_catalog(tmp_path: Path) -> None:
    """Loading takes three times as much as executing, as the catalog states."""
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
        assert "section 5.1" in result.output and found["paper"][0]["paper"]
        if number == "5":
            assert found["load_over_execute"]["room"] == pytest.approx(3.0)
            assert found["paper"][0]["paper"] == [2.0, 5.0] and found["paper"][0]["ours"] == {"room": 3.0}
            assert "2 to 5" in result.output and "room 3" in result.output
        if number == "6":
            assert points[0]["load_ms"] == 7.0 and points[0]["device_ms"] == 5.0


def test_figures_of_the_same_small_catalogs_build_them_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They were built for each of the three figures, which took minutes each time."""
    costs = {Place.DEVICE: Cost(energy_j=2.0, latency_ms=5.0, memory_bytes=10**6, load_energy_j=6.0, load_ms=7.0)}
    room, told = made_catalog(tmp_path / "room", "room", costs), list[str]()

    def build_catalogs(folder: Path, progress: Callable[[str], None], *, int8: bool) -> list[Path]:
        progress("building")
        return [room.path]

    monkeypatch.setattr("benchmarks.catalog.day_catalogs.build_catalogs", build_catalogs)
    show = told.append
    found = [paper_figures.figure(number, (), show)["curves"]["room"] for number in (4, 5, 6)]
    assert told == ["building"]
    assert [len(each) for each in found] == [len(room.catalog.variants)] * 3


def test_specialised_and_shared_models_beside_the_papers() -> None:
    """By hand: the cheapest specialised model takes 2 mJ, the generic one 10 mJ; a head adds a tenth of the time."""
    specialised = {
        "generic": {"accuracy": 0.7, "least": 0.6, "most": 0.8, "ms": 5.0, "execute_j": 0.01},
        "small": {"accuracy": 0.9, "least": 0.85, "most": 0.95, "ms": 1.0, "execute_j": 0.002},
        "larger": {"accuracy": 0.9, "least": 0.8, "most": 0.95, "ms": 2.0, "execute_j": 0.004},
    }
    shared = {"light": {"accuracy": 0.9, "ms": 0.5, "execute_j": 0.005}}
    found = beside_paper.with_paper(10, {"specialised": specialised, "shared": shared, "one_model_ms": 5.0})
    ours = [row["ours"] for row in found["paper"]]
    assert ours[0] == pytest.approx([2.0, 4.0]) and ours[1] == pytest.approx(10.0)
    assert ours[2] == pytest.approx([85.0, 95.0]) and ours[3] == pytest.approx(70.0)
    assert ours[4:] == [{"light": 5.0}, {"light": 0.5}, {"light": 10.0}]


def test_figures_whose_numbers_are_not_in_the_text_say_so() -> None:
    for number in set(paper_figures.FIGURES) - set(published.FIGURES):
        found = beside_paper.with_paper(number, {})
        assert set(found) == {"note"} and "without numbers" in found["note"]


def test_how_long_specialising_takes_there_and_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ours = {"quarter": {"retarget_s": 0.5, "pre_forward_s": 0.25}}
    monkeypatch.setattr("benchmarks.catalog.specialising_time.specialising_times", lambda: ours)
    arguments = ["bench", "paper", "mcdnn", "--table", "3", "--json", str(tmp_path / "3.json")]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0 and "152.400" in result.output and "0.250" in result.output
    rows = json.loads((tmp_path / "3.json").read_text())["tables"]["3"]
    assert rows["the paper's face (C0)"] == {"full_s": 26000.0, "retarget_s": 30.4, "pre_forward_s": 4.3}


def test_the_time_of_no_specialist_is_none() -> None:
    """One picture per class is too few to judge by: table 3 once showed the time of refusing to make a specialist."""
    with pytest.raises(CatalogError, match=r"nothing to time.*fewer than"):
        specialising_times(scenes=3)


def test_memory_is_still_there() -> None:
    result = CliRunner().invoke(app, ["bench", "paper", "memory", "--figure", "3"])
    assert result.exit_code == 0 and "size: 128" in result.output
    assert CliRunner().invoke(app, ["bench", "paper", "cacheinf", "--table", "9"]).exit_code != 0


def test_latency_by_reuse_ratio_by_hand(tmp_path: Path) -> None:
    """The latencies at reuse ratios of 0.1 and 0.15 are averaged; those of 0.85 and 0.95 stand alone."""
    points = paper_tables._by_reuse([(0.1, 10.0), (0.15, 20.0), (0.85, 5.0), (0.95, 1.0)])
    assert [point["ms"] for point in points] == [15.0, 5.0, 1.0]
    found: dict[str, Any] = dict.fromkeys(paper_tables.SYSTEMS, points)
    found["note"] = "a picture without numbers"
    paper_tables.CacheInfPages().draw(6, found, tmp_path / "six.png")
    assert cv2.imread(str(tmp_path / "six.png")) is not None


def test_watts_are_joules_over_the_time() -> None:
    figures = [
        {"energy_j": 2.0, "latency_ms": {"mean": 500.0}, "energy_kind": "measured"},
        {"energy_j": 1.0, "latency_ms": {"mean": 100.0}, "energy_kind": "measured"},
    ]
    cells = paper_tables.energy_cells(PUBLISHED["Kapao"]["DS"], figures)
    assert [cells[key]["ours"] for key in ("W indoor", "W outdoor", "J indoor", "J outdoor")] == [4.0, 10.0, 2.0, 1.0]
    assert cells["W outdoor"]["paper"] == 6.63 and cells["ours are"] == "measured"


def test_the_papers_rows_of_times_with_what_follows_their_signs() -> None:
    ours = {
        "transmit_ms": 20.0, "latency_ms": {"mean": 50.0, "std": 5.0}, "transmit_share": 0.4,
        "output_error": {"mean": 0.01, "max": 0.02},
    }  # fmt: skip
    cells = paper_tables.time_cells(PUBLISHED["Kapao"]["HP"], [ours, ours])
    assert cells["inference ms indoor"] == {"paper": 310, "paper_std": 140, "ours": 50.0, "ours_std": 5.0}
    assert cells["transmission % outdoor"] == {"paper": 82.35, "ours": 40.0}
    assert cells["output error outdoor"] == 0.01
    shown = command._cell(cells["inference ms indoor"])
    assert shown == "310 ± 140 / 50.000 ± 5.000"
    alone = paper_tables.time_cells(PUBLISHED["AGRNav"]["HP"], [None, None])
    assert command._cell(alone["transmission ms indoor"]) == "240 ± 80 / n/a"


def test_what_was_read_from_the_drafts_tables_fits_together() -> None:
    """Watts times the latency are joules, and transmission over latency is its share, within the paper's rounding.

    RegNet's and VGG19's local watts are exceptions; one share of VGG19's is 2.3 points more than its times imply.
    """
    for system, row in ((name, each) for rows in PUBLISHED.values() for name, each in rows.items()):
        for latency, sent, share, watts, joules in zip(
            row.latency_ms, row.transmission_ms, row.share, row.watts, row.joules, strict=True
        ):
            assert latency is not None
            assert (sent is None) == (share is None) == (system == "Local")
            if sent is not None:
                assert 100 * sent[0] / latency[0] == pytest.approx(share, abs=2.3)
            if watts is not None and joules is not None and system != "Local":
                assert watts[0] * latency[0] / 1e3 == pytest.approx(joules[0], rel=0.021)


@pytest.mark.parametrize("number", [1, 2, 4, 5])
def test_a_table_of_the_draft_is_printed_with_all_its_rows(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    figures = {
        "transmit_ms": 20.0, "transmit_share": 0.4, "latency_ms": {"mean": 50.0, "std": 5.0}, "energy_j": 1.5,
        "energy_kind": "modelled", "output_error": None,
    }  # fmt: skip
    link = {"systems": dict.fromkeys(_MEASURED, figures)}
    report = {"bandwidth": {"indoor": link, "outdoor": link}, "energy": "modelled, no meter: none here"}
    monkeypatch.setattr(paper_tables, "_measured", lambda *_: report)
    result = CliRunner().invoke(app, ["bench", "paper", "cacheinf", "--table", str(number)], env={"COLUMNS": "240"})
    assert result.exit_code == 0, result.output
    assert ("AGRNav (not here), Ours" in result.output) == (number < 3)
    assert "Ours, following" in result.output
    expected = {1: "360 ± 200 / 50.000 ± 5.000", 2: "6.380 ± 2.210 / 30.000", 4: "61.220 / 40.000", 5: "no meter"}
    assert expected[number] in result.output


@pytest.mark.parametrize(
    ("network", "arguments", "measured"),
    [
        ("RegNet", ["--table", "4"], ["torchvision:regnet_x_16gf"]),
        ("vgg19", ["--table", "5"], ["torchvision:vgg19"]),
        ("torchvision:convnext_large", ["--table", "4"], ["torchvision:convnext_large"]),
        ("kapao", ["--table", "1"], ["scenenet", paper_tables._POSE]),
        ("pose", ["--table", "2"], [paper_tables._POSE]),
        ("scenenet", [], ["scenenet"] * 4),  # tables 1 and 2, figures 5 and 6; table 3 is about memory
    ],
)
def test_one_network_of_the_draft_is_measured_alone(
    network: str, arguments: list[str], measured: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of a table's networks were measured, ten minutes each."""
    figures = {
        "transmit_ms": 20.0, "transmit_share": 0.4, "latency_ms": {"mean": 50.0, "std": 5.0}, "energy_j": 1.5,
        "energy_kind": "modelled", "reuse_ms": [(0.1, 10.0)], "output_error": None,
    }  # fmt: skip
    link, models = {"systems": dict.fromkeys(_MEASURED, figures)}, list[str]()

    def found(model: str, *_: Any) -> dict[str, Any]:
        models.append(model)
        return {"bandwidth": dict.fromkeys(("indoor", "outdoor", "48"), link), "energy": "modelled"}

    monkeypatch.setattr(paper_tables, "_measured", found)
    monkeypatch.setattr(paper_tables, "memory_of", lambda model, *_: dict.fromkeys(("no cache", "ours"), 1.0))
    result = CliRunner().invoke(app, ["bench", "paper", "cacheinf", *arguments, "--network", network])
    assert result.exit_code == 0, result.output
    assert models == measured and "AGRNav" not in result.output


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ["cacheinf", "--table", "4", "--network", "resnet50"],
            "network resnet50 is none of Kapao (scenenet), Kapao (pose), RegNet",
        ),
        (["cacheinf", "--table", "4", "--network", "scenenet"], "4 is none of the tables of scenenet: 1, 2, 3"),
        (["cacheinf", "--figure", "5", "--network", "VGG19"], "5 is none of the figures of VGG19: there are none"),
        (["memory", "--table", "1", "--network", "VGG19"], "--network is for deepcache and cacheinf"),
    ],
)
def test_a_network_that_a_page_does_not_have_is_refused(arguments: list[str], said: str) -> None:
    result = CliRunner().invoke(app, ["bench", "paper", *arguments], env={"COLUMNS": "200"})
    assert result.exit_code != 0
    assert said in f"{result.output} {result.exception}"


def test_memory_of_the_network_that_is_not_here(monkeypatch: pytest.MonkeyPatch) -> None:
    ours = dict.fromkeys(("no cache", "cache all", "ours", "equation 8"), 1.0)
    monkeypatch.setattr(paper_tables, "memory_of", lambda *_: ours)
    rows = paper_tables.CacheInfPages().table(3, (), lambda _: None)
    assert rows["AGRNav (not here)"]["ours"] == {"paper": 131.2, "ours": None}
    assert rows["scenenet"]["cache all"] == {"paper": 1782.5, "ours": 1.0}


def test_every_figure_can_be_drawn() -> None:
    assert set(paper_figures._DRAWN) == set(paper_figures.FIGURES) == set(paper_figures._FIGURES)


def test_equation_8_weighs_updates() -> None:
    """Computing takes 80 us, and updating 400 bytes at 10 bytes per us 40 us, 11 times for w = 10: 124 us over 100."""
    goal = Equation8(bytes_per_us=10.0, microseconds=100.0)
    assert goal(Assessment(microseconds=80.0, cache_bytes=400, arena_bytes=0)) == pytest.approx(1.24)
