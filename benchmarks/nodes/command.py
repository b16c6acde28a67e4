# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""``cacheinf bench nodes``: measures what transport adds to matching and computing."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from cacheinf_ros.cli.bench.bench_report import DEFAULT_SCENE, write_report
from cacheinf_ros.cli.options import JsonFile, ModelReference, SourceReference, Threads
from cacheinf_ros.engine import EngineConfig

_DEFAULTS = EngineConfig()
_QUANTILES = ("p50", "p95")


def nodes(
    source: SourceReference = DEFAULT_SCENE,
    model: ModelReference = "scenenet",
    rate: Annotated[float, typer.Option(min=0.1, help="Images per second.")] = 10.0,
    frames: Annotated[int, typer.Option(min=1, help="How many frames of each run are counted.")] = 100,
    threads: Threads = _DEFAULTS.threads,
    out: Annotated[Path, typer.Option(help="Folder for the nodes' logs.")] = Path("out/bench_nodes"),
    json_file: JsonFile = None,
) -> None:
    """Measure what transport adds: from a camera's stamp to the result, with real processes and four camera kinds."""
    from benchmarks.nodes.node_overhead import run_nodes_benchmark

    report = run_nodes_benchmark(
        source=source, model=model, rate=rate, frames=frames, threads=threads, folder=out, progress=Console().print
    )
    write_report(json_file, report)
    _print(report)


def _print(report: dict[str, Any]) -> None:
    table = Table(
        "nodes", "camera", "results", "p50 ms", "p95 ms", "beside matching and computing: p50 ms", "p95 ms",
        title=f"{report['model']}, {report['source']} at {report['rate']:g} Hz: from stamp to result",
    )  # fmt: skip
    for row in report["rows"]:
        figures = [f"{row[key][q]:.1f}" if row[key] else "-" for key in ("latency_ms", "beside_ms") for q in _QUANTILES]
        table.add_row(row["nodes"], row["camera"], f"{row['results']} of {row['published']}", *figures)
    Console().print(table)
