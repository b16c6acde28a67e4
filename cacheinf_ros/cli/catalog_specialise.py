# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""What ``cacheinf catalog build --specialise`` has stored, for people."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich import box
from rich.table import Table

if TYPE_CHECKING:
    from rich.console import Console

    from cacheinf_ros.catalog.catalog_folder import CatalogFolder


def print_specialise(catalog: CatalogFolder, console: Console) -> None:
    """The skews that are worth a specialist, and what it gains; nothing where the catalog was built without."""
    from cacheinf_ros.catalog.specialists.specialist_folder import original_name, read_specialise

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
            str(pair.n), f"{pair.p:g}", best.tensor, f"{best.ms:.2f}", f"{alone_ms:.2f}", f"{best.accuracy:.3f}",
            f"{pair.accuracy:.3f}",
        )  # fmt: skip
    console.print(table)
    trunks = ", ".join(f"{each.tensor} ({each.ms:.2f} ms, {each.memory_bytes / 1e6:.2f} MB)" for each in file.trunks)
    console.print(f"small trunks: {trunks}; {file.samples} pictures of {file.data}", highlight=False)
    if file.dropped:
        console.print(f"trunks that no skew would choose: {', '.join(file.dropped)}", highlight=False)
