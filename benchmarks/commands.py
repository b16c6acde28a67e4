# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The commands that the laboratory adds to ``cacheinf bench``."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from benchmarks.catalog.command import bench_catalog
from benchmarks.fleet.command import fleet
from benchmarks.matching.command import matcher
from benchmarks.nodes.command import nodes
from benchmarks.offload.bench_offload import offload
from benchmarks.offload.command import offload_check, offload_map, offload_plot
from benchmarks.papers.command import paper
from benchmarks.truncation.command import truncation, truncation_plot

COMMANDS: Mapping[str, Callable[..., None]] = {
    "matcher": matcher,
    "nodes": nodes,
    "offload": offload,
    "fleet": fleet,
    "truncation": truncation,
    "truncation-plot": truncation_plot,
    "catalog": bench_catalog,
    "offload-plot": offload_plot,
    "offload-map": offload_map,
    "offload-check": offload_check,
    "paper": paper,
}
"""The commands by name; :data:`cacheinf_ros.cli.laboratory.COMMANDS` has the same names."""
