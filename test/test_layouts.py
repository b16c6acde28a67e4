# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The layouts for rqt, PlotJuggler and Foxglove show only topics and message fields that exist."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

ROOT = Path(__file__).parents[1]
RQT = ROOT / "config" / "rqt" / "cacheinf.perspective"
PLOTJUGGLER = ROOT / "config" / "plotjuggler" / "cacheinf.xml"
FOXGLOVE = ROOT / "config" / "foxglove" / "cacheinf.json"
NODE = "/cached_inference"
IMAGES_AND_SERVICES = {f"{NODE}/overlay", f"{NODE}/enable", "/diagnostics"}
FOXGLOVE_KEYS = {  # those of foxglove.layouts, Foxglove's own description of its panels, and the title of each
    "Image": {"imageMode", "cameraState", "topics", "layers"},
    "Plot": {
        "paths", "showLegend", "legendDisplay", "showPlotValuesInLegend", "showXAxisLabels", "showYAxisLabels",
        "isSynced", "xAxisVal", "sidebarDimension", "followingViewWidth", "minYValue", "maxYValue",
    },
    "DiagnosticSummary": {"topicToRender", "minLevel", "pinnedIds", "hardwareIdFilter", "sortByLevel"},
    "Parameters": set(),
    "CallService": {"serviceName", "requestPayload", "layout", "buttonText"},
}  # fmt: skip
FIGURES = re.compile(rf"{NODE}/figures[/.](\w+)")


def fields() -> set[str]:
    """Return the names of FrameFigures' fields, without its header."""
    declared = (line.split("#")[0].split() for line in (ROOT / "msg" / "FrameFigures.msg").read_text().splitlines())
    return {words[1] for words in declared if len(words) == 2 and words[0] == "float32"}


def plotted_by_rqt(perspective: Any) -> list[str]:
    plugins = perspective["groups"]["pluginmanager"]["groups"]
    keys = [plugin["groups"]["plugin"]["keys"] for name, plugin in plugins.items() if "rqt_plot__Plot" in name]
    return [topic for each in keys for topic in ast.literal_eval(each["topics"]["repr"])]


def plotted_by_plotjuggler() -> list[str]:
    return [curve.get("name", "") for curve in ElementTree.parse(PLOTJUGGLER).iter("curve")]


def plotted_by_foxglove() -> list[str]:
    panels = json.loads(FOXGLOVE.read_text())["configById"]
    return [path["value"] for name, panel in panels.items() if name.startswith("Plot!") for path in panel["paths"]]


@pytest.mark.parametrize(
    "plotted",
    [plotted_by_rqt(json.loads(RQT.read_text())), plotted_by_plotjuggler(), plotted_by_foxglove()],
    ids=["rqt", "plotjuggler", "foxglove"],
)
def test_every_curve_is_a_field_of_the_figures(plotted: list[str]) -> None:
    found = [FIGURES.fullmatch(each) for each in plotted]
    assert all(found), plotted
    assert {each[1] for each in found if each} <= fields()
    assert len(found) == len(set(plotted)) >= 9


@pytest.mark.parametrize("file", [RQT, PLOTJUGGLER, FOXGLOVE], ids=lambda file: file.name)
def test_no_other_name_of_ours_is_in_a_layout(file: Path) -> None:
    named = set(re.findall(rf"(?:{NODE}/[\w/]+|/diagnostics)", file.read_text()))
    assert {name for name in named if not name.startswith(f"{NODE}/figures")} <= IMAGES_AND_SERVICES


def test_foxglove_shows_each_panel_once() -> None:
    layout = json.loads(FOXGLOVE.read_text())

    def shown(part: Any) -> list[str]:
        return [part] if isinstance(part, str) else [*shown(part["first"]), *shown(part["second"])]

    assert sorted(shown(layout["layout"])) == sorted(layout["configById"])


def test_foxglove_knows_every_setting_of_a_panel() -> None:
    for name, panel in json.loads(FOXGLOVE.read_text())["configById"].items():
        assert set(panel) <= FOXGLOVE_KEYS[name.partition("!")[0]] | {"foxglovePanelTitle"}, name


def test_rqt_has_settings_for_the_plugins_that_it_starts() -> None:
    plugins = json.loads(RQT.read_text())["groups"]["pluginmanager"]
    running = ast.literal_eval(plugins["keys"]["running-plugins"]["repr"])
    started = {
        f"plugin__{name.replace('/', '__')}__{number}" for name, numbers in running.items() for number in numbers
    }
    assert set(plugins["groups"]) <= started
