# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""A catalog for people: tables of its variants, and a plot of its Pareto front."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Column, Table

from cacheinf_ros.catalog import Place
from cacheinf_ros.cli.output_files import writing

if TYPE_CHECKING:
    from cacheinf_ros.catalog import CatalogFolder, VariantEntry


def draw_catalog(found: CatalogFolder, path: Path) -> None:
    """Draw accuracy against energy, memory and latency on the device, with the dominated variants in grey.

    Raises:
        ConfigError: the picture cannot be written.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(13, 4), layout="constrained")
    axes_row: Any = figure.subplots(1, 3, sharey=True)
    kept, dominated = found.file.variants, found.file.dominated
    panels = (
        ("energy, J per frame", "energy_j", 1),
        ("memory, MB", "memory_bytes", 1e6),
        ("latency, ms", "latency_ms", 1),
    )
    for axes, (label, field, unit) in zip(axes_row, panels, strict=True):
        for entries, style in ((dominated, {"color": "#b0b4ba"}), (kept, {"color": "#1a73e8"})):
            costs = [getattr(entry.costs[Place.DEVICE], field) / unit for entry in entries]
            axes.scatter(costs, [entry.accuracy for entry in entries], s=22, **style)
        stairs = _stairs(kept, field, unit)
        axes.step(*zip(*stairs, strict=True), where="post", color="#1a73e8", linewidth=1)
        for x, y, name in _named(kept, field, unit):
            axes.annotate(name, (x, y), fontsize="xx-small", xytext=(3, 3), textcoords="offset points")
        axes.set(xlabel=f"{label}, on the device", xlim=(0, None))
        axes.grid(alpha=0.25)
    axes_row[0].set_ylabel(found.file.measure)
    figure.suptitle(f"{found.file.name}: kept blue, dominated grey")
    with writing(path):
        figure.savefig(path, dpi=110)


def _stairs(entries: Sequence[VariantEntry], field: str, unit: float) -> list[tuple[float, float]]:
    """Return the highest accuracy that each cost buys, from the cheapest on."""
    stairs: list[tuple[float, float]] = []
    for cost, accuracy in sorted((getattr(e.costs[Place.DEVICE], field) / unit, e.accuracy) for e in entries):
        if not stairs or accuracy > stairs[-1][1]:
            stairs.append((cost, accuracy))
    return stairs


def _named(entries: Sequence[VariantEntry], field: str, unit: float) -> list[tuple[float, float, str]]:
    """Return one name for variants that lie together: those of one architecture that are alike in int8 or not."""
    found: dict[object, tuple[float, float, str]] = {}
    for entry in entries:
        place = getattr(entry.costs[Place.DEVICE], field) / unit, entry.accuracy
        found.setdefault((entry.changes, entry.int8), (*place, entry.name))
    return list(found.values())


def print_catalog(found: CatalogFolder) -> None:
    """Print every variant that is kept, by place, what was left out, and what specialists gain."""
    console = Console()
    file = found.file
    title = f"{escape(file.name)}, input {'x'.join(map(str, file.input_size))}; accuracy: {file.measure}"
    table = Table(
        Column("variant", no_wrap=True), "right", "file MB", Column("place", no_wrap=True), "mJ", "ms", "MB", "load J",
        "$/10⁶", title=title, box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False,
    )  # fmt: skip
    for entry in file.variants:
        head = (escape(entry.name), f"{entry.accuracy:.3f}", f"{entry.stored_bytes / 1e6:.3f}")
        for place, cost in entry.costs.items():
            table.add_row(
                *head, place.value, f"{1e3 * cost.energy_j:.1f}", f"{cost.latency_ms:.2f}",
                f"{cost.memory_bytes / 1e6:.2f}", f"{cost.load_energy_j:.2f}", f"{1e6 * cost.money:.2f}",
            )  # fmt: skip
            head = ("", "", "")
    console.print(table)
    conditions = ", ".join(f"{key} {value}" for key, value in file.conditions.items())
    console.print(f"{file.data}; {conditions}", markup=False)
    if file.dominated:
        names = ", ".join(f"{entry.name} ({entry.accuracy:.3f})" for entry in file.dominated)
        console.print(f"dominated, and not kept: {names}", highlight=False, markup=False)
    for name, reason in file.left_out.items():
        console.print(f"left out: {name}: {reason}", highlight=False, markup=False)
    _print_specialists(found, console)


def _print_specialists(catalog: CatalogFolder, console: Console) -> None:
    """Print the skews that are worth a specialist, and what it gains; nothing where the catalog has none."""
    from cacheinf_ros.catalog.specialists import original_name, read_specialise

    found = read_specialise(catalog)
    if found is None:
        return
    file, alone_ms = found.file, found.file.variant_ms[original_name(catalog)]
    table = Table(
        "classes", "share from", "small trunk", "ms", "original, ms", "accuracy", "original",
        title="specialists before the original", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False,
    )  # fmt: skip
    for pair in file.pairs:
        best = pair.trunks[0]
        table.add_row(
            str(pair.n), f"{pair.p:g}", best.name, f"{best.ms:.2f}", f"{alone_ms:.2f}", f"{best.accuracy:.3f}",
            f"{pair.accuracy:.3f}",
        )  # fmt: skip
    console.print(table)
    trunks = ", ".join(f"{each.name} ({each.ms:.2f} ms, {each.memory_bytes / 1e6:.2f} MB)" for each in file.trunks)
    console.print(f"small trunks: {trunks}; {file.samples} pictures of {file.data}", highlight=False, markup=False)
    if file.dropped:
        console.print(f"trunks that no skew would choose: {', '.join(file.dropped)}", highlight=False)
