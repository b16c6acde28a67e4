# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""``cacheinf bench stream``: bounded mode on a recording, against what a user could do instead."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from cacheinf_ros.cli.bench.measured_options import MeasuredOptions
from cacheinf_ros.cli.options import described, with_options
from cacheinf_ros.engine import DensePrecision, EngineConfig
from cacheinf_ros.matching import MatchingConfig

_DEFAULTS = EngineConfig()
_EXPLAINED = (
    "right: agrees with what dense answers to nine neighbouring frames agree on; moving: where that differs from four "
    "frames before; f16, bf16, int8: dense in lower precision; every N: dense on every Nth frame, else the last "
    "answer; frame_skip: the same in the time that bounded mode takes"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamOptions:
    """What ``cacheinf bench stream`` measures."""

    measured: MeasuredOptions
    frames: Annotated[int, typer.Option(min=2, help="How many frames are counted.")] = 200
    warm_up: Annotated[
        int, typer.Option(min=1, help="Frames before them: bounded mode computes the first 24 densely, to learn.")
    ] = 32
    max_loss: Annotated[float, described(EngineConfig, "max_loss")] = _DEFAULTS.max_loss
    dense_precision: Annotated[DensePrecision, described(EngineConfig, "dense_precision")] = _DEFAULTS.dense_precision


@with_options(StreamOptions)
def stream(options: StreamOptions) -> None:
    """What a user gets on a recording: latency, and how often answers are right, against dense and frame skipping.

    Example: cacheinf bench stream --model FastestDet.onnx --source clip.mp4 --json out.json
    """
    from cacheinf_ros.bench.shots import recorded
    from cacheinf_ros.bench.stream import run_stream_benchmark
    from cacheinf_ros.sources import open_source

    report = run_stream_benchmark(
        options.measured.load(),
        recorded(open_source(options.measured.source)),
        config=EngineConfig(
            threads=options.measured.threads, max_loss=options.max_loss, dense_precision=options.dense_precision
        ),
        matching=MatchingConfig(),
        frames=options.frames,
        warm_up=options.warm_up,
    )
    options.measured.write(report)
    _print(report)


def _print(report: dict[str, Any]) -> None:
    best, latency = report["best_dense_fp32"], report["latency_ms"]
    table = Table(
        "", "mean ms", "p95 ms", "of dense", "right", "right, moving",
        title=f"{report['model']} {report['size']}, {report['frames']} frames, {report['threads']} threads",
        caption=_EXPLAINED, caption_justify="left",
    )  # fmt: skip
    for name, right in report["consensus"].items():
        measured = latency.get(best if name == "dense" else name)
        times = (f"{measured['mean']:.1f}", f"{measured['p95']:.1f}") if measured else ("", "")
        share = f"{measured['mean'] / latency[best]['mean']:.2f}" if measured else ""
        moving = "" if right["where_it_moves"] is None else f"{right['where_it_moves']:.3f}"
        table.add_row(f"dense ({best})" if name == "dense" else name, *times, share, f"{right['whole']:.3f}", moving)
    console, loss = Console(), report["loss"]
    console.print(table)
    console.print(
        f"loss {loss['measured']:.3f} ({loss['where_it_moves']:.3f} where it moves) of {loss['asked']:g} asked: "
        f"{'kept' if loss['kept'] else 'broken'}; {report['held']:.0%} of the answers were held"
    )
