# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""``cacheinf bench matcher``: measures how long each matching algorithm takes, and what it finds."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console
from rich.table import Table

from cacheinf_ros.cli.bench.bench_report import DEFAULT_SCENE, write_report
from cacheinf_ros.cli.options import JsonFile, SourceReference
from cacheinf_ros.config import parse_size


def matcher(
    source: SourceReference = DEFAULT_SCENE,
    sizes: Annotated[
        str, typer.Option(metavar="SIZES", help="Frame sizes HEIGHTxWIDTH to measure at, separated by commas.")
    ] = "227x227,480x640",
    frames: Annotated[int, typer.Option(min=2, help="How many frames are matched.")] = 60,
    json_file: JsonFile = None,
) -> None:
    """Measure latency and match ratio of every matcher, each frame against the one before (DeepCache, Table 4)."""
    from benchmarks.matchers import COMPARATORS
    from benchmarks.matching.matching_time import INSTALLED, run_matcher_benchmark
    from cacheinf_ros.sources import open_source

    images = [frame.image for frame in itertools.islice(open_source(source), frames)]
    wanted = tuple(size for text in sizes.split(",") if (size := parse_size(text)))
    report = run_matcher_benchmark(images, sizes=wanted, matchers={**INSTALLED, **COMPARATORS})
    write_report(json_file, {"source": Path(source).name, **report})
    _print(report)


def _print(report: dict[str, Any]) -> None:
    for size, algorithms in report["sizes"].items():
        table = Table("matcher", "p50 ms", "p95 ms", "match ratio", title=size)
        for name, values in algorithms.items():
            latency = values["latency_ms"]
            ratio = float(np.mean(values["match_ratio"]["mean"]))
            table.add_row(name, f"{latency['p50']:.2f}", f"{latency['p95']:.2f}", f"{ratio:.1%}")
        Console().print(table)
