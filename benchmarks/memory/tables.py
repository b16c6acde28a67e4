# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Prints tables of placements for ``cacheinf bench memory``."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rich.console import Console
from rich.table import Column, Table


def _folded(names: Iterable[str]) -> list[Column]:
    """Return columns whose headings are shown in full, however narrow the terminal is."""
    return [Column(name, overflow="fold") for name in names]


def print_placements(report: dict[str, Any]) -> None:
    """Print the sections ``placement`` and ``minimalloc`` of a report."""
    console = Console()
    for kind in ("shared_objects", "offsets"):
        networks = report["placement"]
        table = Table("strategy", *_folded(networks), title=f"{kind.replace('_', ' ')}, MiB")
        for strategy in next(iter(networks.values()))[kind]:
            table.add_row(strategy, *(f"{network[kind][strategy]:.3f}" for network in networks.values()))
        table.add_row("lower bound", *(f"{network['bounds'][kind]:.3f}" for network in networks.values()))
        console.print(table)
    networks = report["placement"]
    table = Table("rounds", *_folded(networks), title="greedy by size in several rounds, as shapes become known, MiB")
    for rounds in next(iter(networks.values()))["rounds"]:
        table.add_row(str(rounds), *(f"{network['rounds'][rounds]:.3f}" for network in networks.values()))
    console.print(table)
    if "minimalloc" in report:
        instances = report["minimalloc"]
        strategies = list(next(iter(instances.values())))
        table = Table("problem", *strategies, title="bytes (seconds); what fits is marked *")
        for name, found in instances.items():
            cells = (f"{s['bytes']}{'*' if s['fits'] else ''} ({s['seconds']:.2f})" for s in found.values())
            table.add_row(name, *cells)
        console.print(table)
