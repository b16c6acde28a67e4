# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""``cacheinf bench stream``: compares bounded mode on a recording with the alternatives that a user has."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from cacheinf_ros.cli.bench.measured_options import MeasuredOptions
from cacheinf_ros.cli.bench.placed_options import PlacedOptions
from cacheinf_ros.cli.options import described, with_options
from cacheinf_ros.cli.output_files import checked_file, checked_folder, writing
from cacheinf_ros.config import Value
from cacheinf_ros.engine import DensePrecision, EngineConfig
from cacheinf_ros.errors import ConfigError
from cacheinf_ros.mode import Mode

if TYPE_CHECKING:  # the help must work where ROS is not installed
    from cacheinf_ros.bench.stream_nodes import StreamNodes

_DEFAULTS = EngineConfig()
_JUDGED = ("right", "streaming", "missed")
_JUDGEMENTS = ("consensus", "streaming")
_TRUTH_COLUMNS = {"recall": "recall", "precision": "precision", "F1": "f1", "IoU": "iou", "mean IoU": "mean_iou"}
_TRUTHS = ("truth", "truth_streaming")
_EXPLAINED = (
    "right: agrees with what dense answers to nine neighbouring frames agree on, in all / where that differs from four "
    "frames before; streaming: the same of the newest answer that has arrived at each frame's time; missed: most "
    "frames in a row without an object that dense answers agree on; recall: share of the objects that are found; "
    "precision: share of the boxes that are right, and F1, where every object is known, each box paired with one "
    "object at most; IoU: overlap with the best box; mean IoU: that of class maps with drawn ones; "
    "ms through the nodes: from the camera to the result; f16, bf16, int8: dense in lower precision; every N: dense on "
    "every Nth frame, else the last answer; frame_skip: the same in the time that bounded mode takes; + flow: in "
    "between answers follow the picture; J where modelled: of the work that answers wait for, without that by which "
    "bounded mode judges them afterwards"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamOptions:
    """Options of ``cacheinf bench stream``."""

    measured: MeasuredOptions
    frames: Annotated[int, typer.Option(min=2, help="How many frames are counted.")] = 200
    warm_up: Annotated[
        int, typer.Option(min=1, help="Frames before them: bounded mode computes the first 24 densely, to learn.")
    ] = 32
    rate: Annotated[float, typer.Option(min=0.0, help="Frames per second of the camera; 0: the source's own.")] = 0.0
    truth_class: Annotated[
        str,
        typer.Option(
            help="What masks beside a folder's frames show, by the model's class names, separated by commas; "
            "without it a box of any class counts."
        ),
    ] = ""
    placed: PlacedOptions
    nodes: Annotated[
        bool, typer.Option("--nodes/--no-nodes", help="Play the source through the real nodes as well.")
    ] = True
    max_loss: Annotated[float, described(EngineConfig, "max_loss")] = _DEFAULTS.max_loss
    dense_precision: Annotated[DensePrecision, described(EngineConfig, "dense_precision")] = _DEFAULTS.dense_precision
    html: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write a page to look at to this file.", callback=checked_file),
    ] = None
    out: Annotated[Path, typer.Option(help="Folder for the nodes' logs.", callback=checked_folder)] = Path(
        "out/bench_stream"
    )


@with_options(StreamOptions)
def stream(options: StreamOptions) -> None:
    """Compare bounded mode at the camera's rate with dense execution, frame skipping and optical flow on a recording.

    One table is measured in this process, and simulated at the camera's rate; another comes from the real nodes.

    Example: cacheinf bench stream --model FastestDet.onnx --source clip.mp4 --json out.json
    """
    from cacheinf_ros.bench import BOUNDED, OwnSettings, StreamPlan, engines_on, recorded, run_stream_benchmark
    from cacheinf_ros.sources import open_source

    if options.html is not None:  # fails before anything is measured where a dependency of the page is missing
        from cacheinf_ros.bench.page import stream_page, write_page

    source = open_source(options.measured.source)
    fps = options.rate or source.fps
    config = EngineConfig.checked(
        mode=Mode.BOUNDED,
        device=options.placed.device,
        precision=options.placed.precision,
        threads=options.measured.threads,
        max_loss=options.max_loss,
        dense_precision=options.dense_precision,
    )
    plan = StreamPlan(
        own={BOUNDED: OwnSettings(config=config)},
        frames=options.frames,
        warm_up=options.warm_up,
        fps=fps,
        truth_class=options.truth_class,
        contenders=options.placed.wanted() or engines_on(config.device),
    )
    nodes = _through_nodes(options, fps) if options.nodes else None
    run = run_stream_benchmark(options.measured.load(), recorded(source), plan, nodes=nodes)
    options.measured.write(run.report)
    _print(run.report)
    if options.html is not None:
        with writing(options.html):
            write_page(stream_page(run, _settings(options)), options.html)
        Console().print(f"{options.html} shows it", highlight=False, soft_wrap=True, markup=False)


def _settings(options: StreamOptions) -> dict[str, str]:
    from cacheinf_ros.sources import label_of

    measured = options.measured
    return {
        "source": label_of(measured.source),
        "model": measured.model,
        "max_loss": f"{options.max_loss:g}",
        "dense_precision": options.dense_precision.value,
        "threads": str(measured.threads),
        "device": options.placed.device,
        "precision": options.placed.precision.value,
    }


def _through_nodes(options: StreamOptions, fps: float) -> StreamNodes:
    try:
        from cacheinf_ros.bench.stream_nodes import StreamNodes
    except ModuleNotFoundError as error:
        raise ConfigError(f"the nodes need ROS ({error}): source a distribution, or give --no-nodes") from None
    measured = options.measured
    parameters: dict[str, Value] = {
        "model": measured.model,
        "weights": str(measured.weights or ""),
        "input_size": measured.size or "",
        "threads": measured.threads,
        "device": options.placed.device,
        "precision": options.placed.precision.value,
        "max_loss": options.max_loss,
        "dense_precision": options.dense_precision.value,
    }
    return StreamNodes(
        source=measured.source, fps=fps, warm_up=options.warm_up, parameters=parameters, folder=options.out,
        progress=Console(stderr=True).print,
    )  # fmt: skip


def _print(report: Mapping[str, Any]) -> None:
    console, loss = Console(), report["loss"]
    title = f"{report['model']} {report['size']}, {report['frames']} frames at {report['fps']:.4g} Hz"
    nodes = report["nodes"]["rows"] if report["nodes"] else []
    ways = {
        f"dense ({report['best_dense_fp32']})" if name == "dense" else name: {
            "consensus": report["consensus"][name],
            **way,
        }
        for name, way in report["ways"].items()
    } | {f"nodes: {row['way']}": row for row in nodes}
    dense_ms = report["ways"]["dense"]["mean_ms"]
    where = f"{report['threads']} threads" if report["device"] == "cpu" else f"device {report['device']}"
    table = _table(f"{title}, {where}", "", "mean ms", "of dense", *_JUDGED)
    for name, way in ways.items():
        took = (f"{way['mean_ms']:.1f}", f"{way['mean_ms'] / dense_ms:.2f}") if "mean_ms" in way else ("", "")
        table.add_row(name, *took, *_judged(way))
    console.print(table)
    console.print(
        f"loss {loss['measured']:.3f} ({loss['where_it_moves']:.3f} where it moves) of {loss['asked']:g} asked: "
        f"{'kept' if loss['kept'] else 'broken'}, {loss['decisions']:.0f} decisions; "
        f"{report['held']:.0%} of the answers were held"
    )
    of_dense = report["ways"]["dense"]["missed_frames"]
    for name in ("bounded", "nodes: bounded"):
        if name in ways and of_dense is not None:
            frames = ways[name]["missed_frames"]
            console.print(f"{name}: an object was missed for at most {frames} frames in a row (dense: {of_dense})")
    if nodes:
        console.print(_costs(nodes, "Through the nodes, per frame of the camera"))
    if any(way["truth"] for way in ways.values()):
        parts = next(tuple(way["truth"]) for way in ways.values() if way["truth"])
        columns = {title: part for title, part in _TRUTH_COLUMNS.items() if part in parts}
        table = _table("Against the truth, without delay / streaming", "", *columns)
        for name, way in ways.items():
            table.add_row(name, *(" / ".join(_share(way[key][part]) for key in _TRUTHS) for part in columns.values()))
        console.print(table)
    console.print(_EXPLAINED)


def _costs(rows: list[dict[str, Any]], title: str) -> Table:
    kinds = ", ".join(sorted({row["energy"] for row in rows}))
    table = _table(title, "", "results", "p50 ms", "p95 ms", "held", "cpu ms", f"J ({kinds})")
    for row in rows:
        latency = row["latency_ms"]
        heard = (f"{latency['p50']:.1f}", f"{latency['p95']:.1f}", f"{row['held']:.0%}") if latency else ("-", "-", "-")
        used = f"{1e3 * row['processor_s']:.1f}", f"{row['joules']:.3f}"
        table.add_row(row["way"], f"{row['results']} of {row['published']}", *heard, *used)
    return table


def _table(title: str, *columns: str) -> Table:
    table = Table(title=escape(title), title_justify="left", box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for number, column in enumerate(columns):
        table.add_column(column, no_wrap=True, justify="right" if number else "left")
    return table


def _judged(way: dict[str, Any]) -> list[str]:
    shares = (f"{_share(way[key]['whole'])} / {_share(way[key]['where_it_moves'])}" for key in _JUDGEMENTS)
    return [*shares, "-" if way["missed_frames"] is None else str(way["missed_frames"])]


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"
