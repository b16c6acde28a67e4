# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""``cacheinf replay``: plays a recording through the real nodes; writes results as a bag, a report and a page."""

from __future__ import annotations

import time
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from cacheinf_ros.cli.bench.bench_report import write_report
from cacheinf_ros.cli.options import described, with_options
from cacheinf_ros.cli.output_files import checked_folder, writing
from cacheinf_ros.config import parse_size
from cacheinf_ros.engine import EngineConfig
from cacheinf_ros.engine.frame_placement import check_voxels
from cacheinf_ros.errors import CacheinfError
from cacheinf_ros.matching import MatcherName, MatchingConfig
from cacheinf_ros.mode import Mode
from cacheinf_ros.sources import label_of, open_source, voxel_grid_of

if TYPE_CHECKING:  # the help must work where ROS is not installed
    from cacheinf_ros.bench.node_answers import Reading
    from cacheinf_ros.graph import Model
    from cacheinf_ros.harness.playback import Played

_SHOWN = {
    f"{topic}_topic": f"/cached_inference/{topic}" for topic in ("cache_map", "class_map", "figures")
}  # fmt: skip
_LATCHED = {"qos_overrides./cached_inference/cache_map.publisher.durability": "transient_local"}  # for the recorder
_SETTINGS = (
    "source", "model", "weights", "size", "mode", "matcher", "threshold", "block_size", "expiry", "rate", "threads"
)  # fmt: skip
_TEXTS = 10  # different errors in the report
_DEFAULTS = MatchingConfig()
_ENGINE = EngineConfig()


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayOptions:
    """Options of ``cacheinf replay``: what to play, through which model, and how."""

    source: Annotated[str, typer.Argument(help="A video, a bag (bag:/topic picks a topic), a folder, or scene:NAME.")]
    model: Annotated[str, typer.Option("--model", "-m", help="See `cacheinf models list`.")] = "scenenet"
    weights: Annotated[str, typer.Option(help="Safetensors or a state dict for the model.")] = ""
    size: Annotated[str, typer.Option(metavar="HEIGHTxWIDTH", help="Size of the model's input.")] = ""
    mode: Annotated[Mode, described(EngineConfig, "mode")] = _ENGINE.mode
    matcher: Annotated[MatcherName, described(MatchingConfig, "matcher")] = _DEFAULTS.matcher
    threshold: Annotated[float, described(MatchingConfig, "threshold")] = _DEFAULTS.threshold
    block_size: Annotated[int, described(MatchingConfig, "block_size")] = _DEFAULTS.block_size
    expiry: Annotated[int, described(MatchingConfig, "expiry")] = _DEFAULTS.expiry
    rate: Annotated[float, typer.Option(min=0.0, help="Frames per second; 0: as recorded.")] = 0.0
    frames: Annotated[int, typer.Option(min=0, help="Stop after so many frames; 0: at the end.")] = 0
    threads: Annotated[int, described(EngineConfig, "threads")] = _ENGINE.threads
    html: Annotated[
        bool,
        typer.Option("--html/--no-html", help="Compute the recording densely as well, and write a page to look at."),
    ] = True
    int8: Annotated[
        bool, typer.Option("--int8/--no-int8", help="Compare with int8, too, which takes a minute to prepare.")
    ] = True
    out: Annotated[
        Path, typer.Option(help="Folder for the bag, the reports and the nodes' logs.", callback=checked_folder)
    ] = Path("out/replay")


@with_options(ReplayOptions)
def replay(options: ReplayOptions) -> None:
    """Play a recording through the real nodes and keep every result.

    Writes OUT/results (an MCAP bag of cacheinf_ros/msg/InferenceResult with its definition), OUT/report.json, and
    OUT/report.html, a page to look at: frame by frame, and compared with dense execution, int8 and frame skipping.
    Frames wait for the model, so none is lost, however fast they are played. The exit code is 1 if a frame has no
    result, or one with an error.

    Example: cacheinf replay drive.mcap --model torchvision:resnet50 --mode exact --threshold 30
    """
    open_source(options.source)  # a mistake is reported before anything starts
    if (grid := voxel_grid_of(options.source)) is not None:  # the node is given ready images, and cannot know
        check_voxels(grid, _load(options).card)
    parameters: dict[str, Any] = {
        "model": options.model, "weights": options.weights, "input_size": options.size, "mode": options.mode.value,
        "matcher": options.matcher.value, "threshold": min(options.threshold, 100.0), "block_size": options.block_size,
        "expiry": options.expiry, "threads": options.threads,
    }  # fmt: skip
    played, readings = _play(options, parameters)
    report = {"source": label_of(options.source), **parameters, **_figures(played, options.mode)}
    _write(played, report, options.out)
    _print(report, options.out)
    if options.html and report["errors"] < report["results"]:
        _write_page(options, played, readings)
    if played.unanswered or report["errors"]:
        raise typer.Exit(1)


def _load(options: ReplayOptions) -> Model:
    from cacheinf_ros.graph import load_model

    weights = Path(options.weights) if options.weights else None
    return load_model(options.model, weights=weights, input_size=parse_size(options.size))


def _play(options: ReplayOptions, parameters: dict[str, Any]) -> tuple[Played, list[Reading]]:
    from cacheinf_ros.bench.node_answers import Reading
    from cacheinf_ros.energy import NoMeter, find_meter, reading
    from cacheinf_ros.harness import NodeCommand, NodeGroup, private_domain
    from cacheinf_ros.harness.playback import (
        FIRST_FRAMES,
        RESULT_TOPIC,
        await_backends,
        kept_for_recorder,
        lossless,
        params_file,
        play,
    )
    from cacheinf_ros.nodes.recorder import Recorder

    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with (
        private_domain() as domain,
        Progress(*columns, transient=True) as progress,
        NodeGroup(options.out / "logs", domain=domain) as group,
    ):
        task = progress.add_task("starting the node")
        readings: list[Reading] = []
        meter = find_meter()

        def look(count: int) -> None:
            progress.update(task, description=f"{count} results")
            joules = None if isinstance(meter, NoMeter) else reading(meter)
            readings.append(Reading(at_ns=time.time_ns(), processor_s=0.0, joules=joules))

        node = group.start(
            NodeCommand(
                executable="cached_inference",
                parameters=lossless(
                    result_topic=RESULT_TOPIC, **parameters, **_LATCHED, **kept_for_recorder(*_SHOWN.values())
                ),
                params_file=params_file(),
            )
        )
        with Recorder(domain=domain, result_topic=RESULT_TOPIC, **(_SHOWN if options.html else {})) as recorder:
            node.wait_ready(120.0)
            played_by: dict[str, Any] = {
                "group": group, "recorder": recorder, "source": options.source, "node": "cached_inference",
                "subscribers": 1,
            }  # fmt: skip
            if options.mode is Mode.BOUNDED:
                progress.update(task, description="preparing dense engines")
                play(**played_by, frames=FIRST_FRAMES)
                await_backends(recorder, node)
            played = play(**played_by, rate=options.rate, frames=options.frames, progress=look)
    return played, readings


def _write_page(options: ReplayOptions, played: Played, readings: list[Reading]) -> None:
    from cacheinf_ros.bench import ENGINES
    from cacheinf_ros.bench.page import replay_page, write_page
    from cacheinf_ros.bench.replayed import NODES, ReplayComparison, compare_replay
    from cacheinf_ros.engine import DensePrecision

    console = Console()
    wanted = {DensePrecision.FLOAT32, *([DensePrecision.INT8] if options.int8 else [])}
    comparison = ReplayComparison(
        config=EngineConfig(mode=options.mode, threads=options.threads),
        contenders=[each for each in ENGINES if each.precision in wanted],
        readings=readings,
        fps=options.rate or 0.0,
    )
    model = _load(options)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, transient=True, console=Console(stderr=True)) as bar:
        task = bar.add_task("preparing dense engines", total=None)

        def show(engine: str, done: int, total: int) -> None:
            bar.update(task, description=f"{engine}, for comparison", completed=done, total=total)

        try:
            run = compare_replay(model, open_source(options.source), played, comparison, show)
        except CacheinfError as error:  # the results are there, and are told about without the page
            console.print(f"no page: {error}", highlight=False, markup=False)
            return
    settings = {name: str(getattr(options, name)) for name in _SETTINGS if getattr(options, name) != ""}
    settings |= {"mode": options.mode.value, "matcher": options.matcher.value, "source": label_of(options.source)}
    page = replay_page(run, NODES, played, settings)
    with writing(options.out / "report.html"):
        write_page(page, options.out / "report.html")
    for sentence in page.verdict:
        console.print(sentence, highlight=False, markup=False)
    console.print(f"{options.out / 'report.html'} shows it", highlight=False, soft_wrap=True, markup=False)


def _figures(played: Played, mode: Mode) -> dict[str, Any]:
    """Return counts of all frames; shares and times are those of the frames after bounded mode has learnt."""
    from cacheinf_ros.bench import frames_to_learn, summary

    results = [result for result in played.results if not result.error]
    learning = frames_to_learn(len(results), promises=mode is Mode.BOUNDED)
    learnt = results[learning:]
    return {
        "frames": played.published,
        "accepted": played.accepted,
        "dropped": played.dropped,
        "results": len(played.results),
        "errors": len(played.results) - len(results),
        "error_texts": list(islice(dict.fromkeys(result.error for result in played.results if result.error), _TEXTS)),
        "modes": {mode: sum(r.mode == mode for r in results) for mode in sorted({r.mode for r in results})},
        "learning": learning,
        "reuse_ratio": {"mean": float(np.mean([r.reuse_ratio for r in learnt])) if learnt else 0.0},
        "active_flops": {"mean": float(np.mean([r.active_share for r in learnt])) if learnt else 0.0},
        "latency_ms": summary([r.compute_ms for r in learnt]) if learnt else None,
    }


def _write(played: Played, report: dict[str, Any], out: Path) -> None:
    from cacheinf_ros.harness.playback import RESULT_TOPIC
    from cacheinf_ros.harness.result_bag import write_results

    results = [(result.stamp_ns, result.serialized) for result in played.results]
    with writing(out / "results"):
        write_results(out / "results", RESULT_TOPIC, results)
    write_report(out / "report.json", report)


def _print(report: dict[str, Any], out: Path) -> None:
    counted = ("frames", "results", "dropped", "errors")
    caption = f"shares and times without the first {report['learning']} frames, from which bounded mode learns"
    table = Table(
        *counted, "reused", "FLOPs", "p50 ms", "p95 ms", title=escape(report["source"]),
        caption=caption if report["learning"] else None,
    )  # fmt: skip
    latency = report["latency_ms"]
    table.add_row(
        *(str(report[key]) for key in counted),
        f"{report['reuse_ratio']['mean']:.0%}",
        f"{report['active_flops']['mean']:.0%}",
        *(f"{latency[key]:.1f}" if latency else "n/a" for key in ("p50", "p95")),
    )
    console = Console()
    console.print(table)
    if report["results"] < report["frames"]:
        lost = report["frames"] - report["results"]
        told = f"{lost} of {report['frames']} frames have no result; {out / 'logs'} has what the node said"
        console.print(told, markup=False, highlight=False, style="red")
    if report["errors"]:
        told = f"{report['errors']} of {report['results']} results are errors. The first: {report['error_texts'][0]}"
        console.print(told, markup=False, highlight=False, style="red")
    console.print(f"results: {out / 'results'}   report: {out / 'report.json'}", markup=False)
