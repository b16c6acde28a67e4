# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""``cacheinf advise``: finds out from a recording how to run a model on a camera, before anything is deployed."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from cacheinf_ros.cli.bench.bench_report import write_report
from cacheinf_ros.cli.options import Size, Threads, Weights, described, with_options
from cacheinf_ros.cli.output_files import checked_folder, writing
from cacheinf_ros.config import parse_size
from cacheinf_ros.energy import PowerModel
from cacheinf_ros.engine import EngineConfig

if TYPE_CHECKING:
    from cacheinf_ros.bench import OwnSettings, ServerLink, StreamRun
    from cacheinf_ros.bench.advice import Advice, Target

_POWER = PowerModel()
_EXPLAINED = (
    "ms: per frame of the camera, and of the slowest twentieth of those that are computed; loss: how much less often "
    "right than dense, in all / where things move; last answer: share of frames that get an earlier frame's; W: of the "
    "robot's computer at the camera's rate, by a model (--idle-w, --compute-w)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class AdviseOptions:
    """Options of ``cacheinf advise``: what to measure, and the target."""

    recording: Annotated[
        str, typer.Argument(help="A video, a bag (bag:/topic picks a topic), a folder of images, or scene:NAME.")
    ]
    model: Annotated[
        str, typer.Argument(help="An .onnx file, a card .yaml, torchvision:NAME, ...; see `cacheinf models list`.")
    ]
    target: Annotated[
        str,
        typer.Option(
            help="15fps: to keep up with such a camera; latency=50ms: of computed frames; 8W: of the robot's computer; "
            "loss=0.02: against dense execution (the default). Within a limit on time or power the least loss is "
            "wanted, else the least time."
        ),
    ] = ""
    weights: Weights = None
    size: Size = None
    threads: Threads = EngineConfig().threads
    frames: Annotated[int, typer.Option(min=2, help="How many frames are counted.")] = 200
    warm_up: Annotated[
        int, typer.Option(min=1, help="Frames before them: bounded mode computes the first 24 densely, to learn.")
    ] = 32
    int8: Annotated[bool, typer.Option("--int8/--no-int8", help="Quantise the model as well, which takes minutes.")] = (
        True
    )
    server: Annotated[
        str,
        typer.Option(
            metavar="MBIT_S,RTT_MS,FRAME_MS",
            help="A server as one of the ways: the link's speed, milliseconds there and back, and what it takes for a "
            "frame, decoded; diagnostics and `cacheinf bench engine` on the server say these.",
        ),
    ] = ""
    idle_w: Annotated[float, described(PowerModel, "idle_w")] = _POWER.idle_w
    compute_w: Annotated[float, described(PowerModel, "compute_w")] = _POWER.compute_w
    out: Annotated[
        Path,
        typer.Option(help="Folder for the page, the plot, the parameters and the figures.", callback=checked_folder),
    ] = Path("out/advice")


@with_options(AdviseOptions)
def advise(options: AdviseOptions) -> None:
    """Tell which way to run a model on a camera's recording: dense, lower precision, frame skipping, or a cache.

    Writes OUT/params.yaml, which `ros2 launch cacheinf_ros cacheinf.launch.py params_file:=...` takes as it is,
    OUT/advice.html, a page to look at, OUT/pareto.png and OUT/advice.json. Where it is interrupted, the same command
    goes on.

    Example: cacheinf advise drive.mcap detector.onnx --target 15fps
    """
    from cacheinf_ros.bench import ServerLink
    from cacheinf_ros.bench.advice import Target, choices_for
    from cacheinf_ros.bench.advice import advise as advise_on

    target, link = Target.parse(options.target), ServerLink.parse(options.server)
    run = _measure(options, target, link)
    choices = choices_for(
        run.report["best_dense_fp32"],
        run.report["contender_losses"],
        _own(options, target),
        has_server=link is not None,
    )
    power = PowerModel.checked(idle_w=options.idle_w, compute_w=options.compute_w)
    advice = advise_on(run, choices, target, power, link)
    console = Console()
    console.print(_table(advice))
    for sentence in advice.verdict:
        console.print(sentence, markup=False)
    console.print(f"[dim]{_EXPLAINED}[/]", highlight=False)
    launch = _write(advice, run, options)
    shows = f"{options.out / 'advice.html'} shows it. To run it:\n{launch}"
    console.print(shows, highlight=False, soft_wrap=True, markup=False)


def _measure(options: AdviseOptions, target: Target, link: ServerLink | None) -> StreamRun:
    from cacheinf_ros.bench import ENGINES, StreamPlan, recorded, run_stream_benchmark
    from cacheinf_ros.bench.advice import SKIPS
    from cacheinf_ros.engine import DensePrecision
    from cacheinf_ros.engine.frame_placement import check_voxels
    from cacheinf_ros.graph import load_model
    from cacheinf_ros.sources import open_source, voxel_grid_of

    source = open_source(options.recording)
    model = load_model(options.model, weights=options.weights, input_size=parse_size(options.size))
    check_voxels(voxel_grid_of(options.recording), model.card)
    plan = StreamPlan(
        own=_own(options, target),
        frames=options.frames,
        warm_up=options.warm_up,
        fps=source.fps,
        contenders=[each for each in ENGINES if options.int8 or each.precision is not DensePrecision.INT8],
        is_brief=True,
        skips=SKIPS,
        server=link,
        at_rate=False,
        keep_in=options.out / "unfinished",
    )
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, transient=True, console=Console(stderr=True)) as bar:
        task = bar.add_task("preparing every way", total=None)

        def show(done: int, total: int) -> None:
            bar.update(task, description="frames, by every way", completed=done, total=total)

        return run_stream_benchmark(model, recorded(source), plan, progress=show)


def _own(options: AdviseOptions, target: Target) -> dict[str, OwnSettings]:
    from cacheinf_ros.bench.advice import own_settings

    return own_settings(target, EngineConfig(threads=options.threads))


def _table(advice: Advice) -> Table:
    table = Table(
        title=f"Wanted: {escape(str(advice.target))}", title_justify="left", box=SIMPLE_HEAD, padding=(0, 1, 0, 0)
    )
    for number, head in enumerate(("", "ms, mean", "with work behind", "slow", "loss", "last answer", "W", "enough")):
        table.add_column(head, justify="right" if number else "left")
    for way in advice.ways:
        table.add_row(
            escape(way.choice.name),
            f"{way.mean_ms:.1f}",
            f"{way.busy_ms:.1f}",
            f"{way.slowest_ms:.1f}",
            f"{way.loss.whole:z.3f} / {way.loss.moving:z.3f}",
            f"{way.held:.0%}",
            f"{way.watts:.1f}",
            "yes" if way.meets(advice.target) else "no",
            style="bold" if way is advice.chosen else "",
        )
    return table


def _write(advice: Advice, run: StreamRun, options: AdviseOptions) -> str:
    """Write everything, and return the commands that start what is advised; raises :class:`ConfigError` if it fails."""
    from cacheinf_ros.bench.advice import advice_page, parameters_yaml, points_of
    from cacheinf_ros.bench.page import pareto_figure, write_page
    from cacheinf_ros.sources import halves_of, label_of, value_range_of, voxel_grid_of

    source, file = label_of(options.recording), options.out / "params.yaml"
    launch = f"ros2 launch cacheinf_ros cacheinf.launch.py params_file:={file.resolve()}"
    halves = halves_of(options.recording)
    if len(halves) > 1:
        left = "" if advice.chosen.choice.beside else " image_topic:=/LEFT"  # else params.yaml says it
        launch += f"{left} right.image_topic:=/RIGHT  # the topics of both cameras"
    if advice.chosen.choice.beside:
        launch = f"{advice.chosen.choice.beside} &\n{launch}"
    comments = [f"Advice of cacheinf for {run.report['model']} on {source}. Wanted: {advice.target}.", *advice.verdict]
    parameters = parameters_yaml(
        advice.chosen.choice,
        options.model,
        weights=options.weights,
        size=options.size,
        value_ranges=[value_range_of(each) for each in halves],
        voxels=voxel_grid_of(options.recording),
        comments=comments,
    )
    settings = {
        "source": source,
        "model": options.model,
        "target": str(advice.target),
        "threads": str(options.threads),
        **({"server": options.server} if options.server else {}),
        "power model": f"{options.idle_w:g} W at rest, {options.compute_w:g} W more while computing",
        "modes": ", ".join(way.choice.name for way in advice.ways),
    }
    write_report(options.out / "advice.json", {"source": source, "advice": advice.report(), **run.report})
    with writing(file):
        file.write_text(parameters, encoding="utf-8")
    with writing(options.out / "pareto.png"):
        (options.out / "pareto.png").write_bytes(pareto_figure(points_of(advice)).content)
    with writing(options.out / "advice.html"):
        write_page(advice_page(advice, run, settings, launch), options.out / "advice.html")
    return launch
