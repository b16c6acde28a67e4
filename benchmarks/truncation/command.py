# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The commands ``cacheinf bench truncation`` and ``truncation-plot``."""

from __future__ import annotations

import itertools
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from cacheinf_ros.cli.bench.measured_options import MeasuredOptions
from cacheinf_ros.cli.options import described, with_options
from cacheinf_ros.engine import EngineConfig, Mode, matching_for

_DEFAULTS = EngineConfig()


@dataclass(frozen=True, slots=True, kw_only=True)
class TruncationOptions:
    """The options of ``cacheinf bench truncation``: what it compares, and on which frames."""

    measured: MeasuredOptions
    frames: Annotated[int, typer.Option(min=3, help="How many frames are measured, after those to learn from.")] = 20
    skip: Annotated[int, typer.Option(min=0, help="Frames of the source to leave out first.")] = 0
    calibration_frames: Annotated[int, typer.Option(min=2, help="How many frames the strategies learn from.")] = 8
    max_error: Annotated[float, described(EngineConfig, "max_error")] = _DEFAULTS.max_error
    max_missed: Annotated[float, described(EngineConfig, "max_missed")] = _DEFAULTS.max_missed


@with_options(TruncationOptions)
def truncation(options: TruncationOptions) -> None:
    """Compare ways to decide what bounded mode holds back: time against error of each."""
    from benchmarks.truncation.comparison import run_truncation_benchmark
    from cacheinf_ros.sources import open_source

    measured, last = options.measured, options.skip + options.calibration_frames + options.frames
    images = [frame.image for frame in itertools.islice(open_source(measured.source), options.skip, last)]
    report = run_truncation_benchmark(
        measured.load(),
        images,
        config=EngineConfig(
            mode=Mode.BOUNDED, threads=measured.threads, max_error=options.max_error, max_missed=options.max_missed
        ),
        matching=matching_for(Mode.BOUNDED),
        calibration_frames=options.calibration_frames,
    )
    measured.write(report)
    _print(report)


def truncation_plot(
    reports: Annotated[list[Path], typer.Argument(help="JSON files of `cacheinf bench truncation`.", exists=True)],
    out: Annotated[Path, typer.Option(help="The picture.")] = Path("truncation.png"),
) -> None:
    """Draw the curves of several reports side by side."""
    from benchmarks.truncation.plot import plot_truncation

    plot_truncation([json.loads(path.read_text(encoding="utf-8")) for path in reports], out)
    typer.echo(f"wrote {out}")


def _print(report: dict[str, Any]) -> None:
    title = f"{report['model']}, {report['source']}: {report['changed_pixels']:.1%} of the pixels change"
    table = Table("strategy", "missed", "error", "ms", "predicted ms", "active FLOPs", title=title)
    for name, curve in {"exact": [report["exact"]], **report["curves"]}.items():
        for point in curve:
            missed, error = f"{point['missed_change']:.3f}", f"{point['engine_error']:.4f}"
            times = (f"{point[key]:.1f}" for key in ("measured_ms", "predicted_ms"))
            table.add_row(name, missed, error, *times, f"{point['active_flops']:.1%}")
            name = ""
    console = Console()
    console.print(table)
    console.print("saved by calibrated thresholds against the best single one, at equal missed change:")
    measured = {missed: found["saved"] for missed, found in report["measured_savings"].items()}
    for kind, shares in (("predicted", report["savings"]), ("measured", measured)):
        console.print(f"  {kind} time: " + ", ".join(f"{share:.0%} at {missed}" for missed, share in shares.items()))
