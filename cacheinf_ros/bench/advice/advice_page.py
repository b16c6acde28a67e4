# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The page of ``cacheinf advise``: what to run, why, and which alternatives were measured."""

from __future__ import annotations

from collections.abc import Mapping

from cacheinf_ros.bench.advice.advice import Advice
from cacheinf_ros.bench.advice.choices import Kind
from cacheinf_ros.bench.loss import DENSE
from cacheinf_ros.bench.page import (
    Page,
    Point,
    Section,
    described,
    pareto_figure,
    run_sections,
    settings_section,
)
from cacheinf_ros.bench.stream_plan import BOUNDED
from cacheinf_ros.bench.stream_run import StreamRun


def advice_page(advice: Advice, run: StreamRun, settings: Mapping[str, str], launch: str) -> Page:
    """Lay out an advice as a page.

    Args:
        settings: the settings that were asked for, by name.
        launch: the commands that start the recommended way.
    """
    shown = BOUNDED if advice.chosen.choice.name == DENSE else advice.chosen.choice.name
    return Page(
        title=f"How to run {run.report['model']} on {settings['source']}",
        subtitle=f"Wanted: {advice.target}. {described(run)}.",
        verdict=advice.verdict,
        sections=[
            Section(title="How to start it", rows=_parameters(advice), code=launch),
            _ways_section(advice),
            *run_sections(run, shown),
            settings_section(settings),
        ],
    )


def points_of(advice: Advice) -> list[Point]:
    """Return the ways as points of time against loss."""
    return [
        Point(
            name=way.choice.name,
            mean_ms=way.mean_ms,
            loss=way.promise,
            is_ours=way.choice.kind is Kind.CACHING,
            is_chosen=way is advice.chosen,
        )
        for way in advice.ways
    ]


def _parameters(advice: Advice) -> list[tuple[str, str]]:
    parameters = advice.chosen.choice.parameters
    assert parameters is not None
    return [(name, str(value)) for name, value in parameters.items()]


def _ways_section(advice: Advice) -> Section:
    rows = [
        (
            way.choice.title,
            f"{way.mean_ms:.1f}",
            f"{way.slowest_ms:.1f}",
            f"{way.loss.whole:z.3f}",
            f"{way.loss.moving:z.3f}",
            f"{way.held:.0%}",
            f"{way.watts:.1f}",
            "yes" if way.meets(advice.target) else "no",
        )
        for way in advice.ways
    ]
    return Section(
        title="The ways to answer this camera",
        heads=("", "ms, mean", "ms, slow", "loss", "where it moves", "last answer", "W", "enough"),
        rows=rows,
        marked=list(advice.ways).index(advice.chosen),
        figures=[pareto_figure(points_of(advice))],
    )
