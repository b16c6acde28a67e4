# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Renders what was measured as one HTML page that needs no network."""

from cacheinf_ros.bench.page.page import Page, Section, write_page
from cacheinf_ros.bench.page.plots import Point
from cacheinf_ros.bench.page.replay_page import replay_page
from cacheinf_ros.bench.page.stream_page import (
    described,
    pareto_figure,
    run_sections,
    settings_section,
    stream_page,
)

__all__ = [
    "Page", "Point", "Section", "described", "pareto_figure", "replay_page", "run_sections", "settings_section",
    "stream_page", "write_page",
]  # fmt: skip
