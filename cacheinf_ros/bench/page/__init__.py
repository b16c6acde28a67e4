# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""What was measured -> one HTML page that needs no network."""

from cacheinf_ros.bench.page.page import Figure, Page, Section, write_page
from cacheinf_ros.bench.page.plots import Point
from cacheinf_ros.bench.page.replay_page import replay_page
from cacheinf_ros.bench.page.stream_page import (
    described,
    pareto_figure,
    run_sections,
    settings_section,
    stream_page,
    ways_section,
)

__all__ = [
    "Figure",
    "Page",
    "Point",
    "Section",
    "described",
    "pareto_figure",
    "replay_page",
    "run_sections",
    "settings_section",
    "stream_page",
    "ways_section",
    "write_page",
]
