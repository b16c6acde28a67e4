# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""``cacheinf bench``: how every figure of the project is measured."""

from __future__ import annotations

import itertools
import json
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console
from rich.table import Table

from cacheinf_ros.cli.memory import print_memory
from cacheinf_ros.cli.options import JsonFile, ModelReference, Size, SourceReference, Threads, Weights, described
from cacheinf_ros.config import parse_size
from cacheinf_ros.engine import Cache, EngineConfig, Mode, Precision, matching_for
from cacheinf_ros.matching import MatcherName

bench = typer.Typer(
    help="Measure latency and error. All contenders run interleaved in one process with the same number of threads.",
    no_args_is_help=True,
)
_DEFAULT_SCENE = "scene:fixed"
_QUANTILES = ("p50", "p95")
_DEFAULTS = EngineConfig()
_COMPARED = (
    "engine: cached with dense on the composed input (the frame where active, the cache's elsewhere); matching: dense "
    "on that with dense on the frame; output: cached with dense on the frame; flicker: dense with the frame before; "
    "frame_skip, output_warp: the last dense output, as it is or moved with the picture, in the time cached takes"
)


@bench.command()
def engine(
    model: ModelReference = "scenenet",
    weights: Weights = None,
    size: Size = None,
    source: SourceReference = _DEFAULT_SCENE,
    changed: Annotated[
        str | None,
        typer.Option(
            metavar="SHARE[:PATTERN]",
            help="In place of a source: a photograph in which this share of the pixels changes from frame to frame, "
            "in one square (blob) or in single pixels (scatter).",
        ),
    ] = None,
    frames: Annotated[int, typer.Option(min=1, help="How many frames are counted, after two to warm up.")] = 60,
    mode: Annotated[
        Mode | None,
        typer.Option(
            help="What is taken from the cache. Without it: exact; bounded with a matcher other than identity."
        ),
    ] = None,
    max_error: Annotated[float, described(EngineConfig, "max_error")] = _DEFAULTS.max_error,
    max_missed: Annotated[float, described(EngineConfig, "max_missed")] = _DEFAULTS.max_missed,
    calibration_frames: Annotated[
        int, typer.Option(min=2, help="Bounded mode: how many frames it is calibrated on, before those that count.")
    ] = 8,
    matcher: Annotated[
        MatcherName | None, typer.Option(help="Without it: diamond_optimised in deepcache mode, else identity.")
    ] = None,
    threshold: Annotated[
        float | None,
        typer.Option(
            help="PSNR in dB above which a block is reused. Without it: 20 in deepcache mode, else identical blocks."
        ),
    ] = None,
    device: Annotated[str, typer.Option(help="Torch device of the cached engine.")] = _DEFAULTS.device,
    precision: Annotated[Precision, described(EngineConfig, "precision")] = _DEFAULTS.precision,
    cache: Annotated[Cache, described(EngineConfig, "cache")] = _DEFAULTS.cache,
    cache_budget_mb: Annotated[float, described(EngineConfig, "cache_budget_mb")] = _DEFAULTS.cache_budget_mb,
    threads: Threads = _DEFAULTS.threads,
    contenders: Annotated[
        str,
        typer.Option(
            metavar="NAMES",
            help="Dense engines to compare with, separated by commas: dense_eager, dense_channels_last, torch_compile, "
            "onnxruntime, openvino; all that are installed by default.",
        ),
    ] = "all",
    json_file: JsonFile = None,
) -> None:
    """Cached inference against every dense engine, frame by frame.

    Example: cacheinf bench engine --model torchvision:resnet50 --size 480x640 --source clip.mp4 --json out.json
    """
    from cacheinf_ros.benchmarks.engine import run_engine_benchmark
    from cacheinf_ros.benchmarks.frames import Change, changing, recorded
    from cacheinf_ros.graph import load_model
    from cacheinf_ros.sources import open_source

    change = Change.parse(changed) if changed else None
    mode = mode or (Mode.EXACT if matcher in (None, MatcherName.IDENTITY) else Mode.BOUNDED)
    loaded = load_model(model, weights=weights, input_size=parse_size(size))
    report = run_engine_benchmark(
        loaded,
        changing(change, loaded.input_size) if change else recorded(open_source(source)),
        config=EngineConfig(
            mode=mode,
            device=device,
            threads=threads,
            precision=precision,
            cache=cache,
            cache_budget_mb=cache_budget_mb,
            max_error=max_error,
            max_missed=max_missed,
        ),
        matching=None if change else matching_for(mode, threshold_db=threshold, matcher=matcher),
        frames=frames,
        calibration_frames=calibration_frames,
        contenders=_contenders(contenders),
    )
    _write(json_file, {"source": f"changed {changed}" if changed else Path(source).name, **report})
    _print_engine(report)


@bench.command()
def truncation(
    model: ModelReference = "scenenet",
    weights: Weights = None,
    size: Size = None,
    source: SourceReference = _DEFAULT_SCENE,
    frames: Annotated[int, typer.Option(min=3, help="How many frames are measured, after those to learn from.")] = 20,
    skip: Annotated[int, typer.Option(min=0, help="Frames of the source to leave out first.")] = 0,
    calibration_frames: Annotated[int, typer.Option(min=2, help="How many frames the strategies learn from.")] = 8,
    max_error: Annotated[float, described(EngineConfig, "max_error")] = _DEFAULTS.max_error,
    max_missed: Annotated[float, described(EngineConfig, "max_missed")] = _DEFAULTS.max_missed,
    threads: Threads = _DEFAULTS.threads,
    json_file: JsonFile = None,
) -> None:
    """Ways to decide what bounded mode holds back: time against error of each."""
    from cacheinf_ros.benchmarks.truncation import run_truncation_benchmark
    from cacheinf_ros.graph import load_model
    from cacheinf_ros.sources import open_source

    images = [frame.image for frame in itertools.islice(open_source(source), skip, skip + calibration_frames + frames)]
    report = run_truncation_benchmark(
        load_model(model, weights=weights, input_size=parse_size(size)),
        images,
        config=EngineConfig(mode=Mode.BOUNDED, threads=threads, max_error=max_error, max_missed=max_missed),
        matching=matching_for(Mode.BOUNDED),
        calibration_frames=calibration_frames,
    )
    report = {"source": Path(source).name, **report}
    _write(json_file, report)
    _print_truncation(report)


@bench.command("truncation-plot")
def truncation_plot(
    reports: Annotated[list[Path], typer.Argument(help="JSON files of `cacheinf bench truncation`.", exists=True)],
    out: Annotated[Path, typer.Option(help="The picture.")] = Path("truncation.png"),
) -> None:
    """Draw the curves of several reports side by side."""
    from cacheinf_ros.benchmarks.truncation import plot_truncation

    plot_truncation([json.loads(path.read_text(encoding="utf-8")) for path in reports], out)
    typer.echo(f"wrote {out}")


@bench.command()
def matcher(
    source: SourceReference = _DEFAULT_SCENE,
    sizes: Annotated[
        str, typer.Option(metavar="SIZES", help="Frame sizes HEIGHTxWIDTH to measure at, separated by commas.")
    ] = "227x227,480x640",
    frames: Annotated[int, typer.Option(min=2, help="How many frames are matched.")] = 60,
    json_file: JsonFile = None,
) -> None:
    """Latency and match ratio of every matching algorithm, each frame against the one before (DeepCache, Table 4)."""
    from cacheinf_ros.benchmarks.matcher import run_matcher_benchmark
    from cacheinf_ros.sources import open_source

    images = [frame.image for frame in itertools.islice(open_source(source), frames)]
    wanted = tuple(size for text in sizes.split(",") if (size := parse_size(text)))
    report = run_matcher_benchmark(images, sizes=wanted)
    _write(json_file, {"source": Path(source).name, **report})
    _print_matchers(report)


@bench.command()
def nodes(
    source: SourceReference = _DEFAULT_SCENE,
    model: ModelReference = "scenenet",
    rate: Annotated[float, typer.Option(min=0.1, help="Images per second.")] = 10.0,
    frames: Annotated[int, typer.Option(min=1, help="How many frames of each run are counted.")] = 100,
    threads: Threads = _DEFAULTS.threads,
    out: Annotated[Path, typer.Option(help="Folder for the nodes' logs.")] = Path("out/bench_nodes"),
    json_file: JsonFile = None,
) -> None:
    """What transport adds: from a camera's stamp to the result through real processes, for four kinds of cameras."""
    from cacheinf_ros.benchmarks.nodes import run_nodes_benchmark

    report = run_nodes_benchmark(
        source=source, model=model, rate=rate, frames=frames, threads=threads, folder=out, progress=Console().print
    )
    _write(json_file, report)
    _print_nodes(report)


@bench.command()
def memory(
    instances: Annotated[
        Path | None, typer.Option(help="A folder of allocation problems, NAME.CAPACITY.csv, as MiniMalloc's.")
    ] = None,
    time_limit_s: Annotated[float, typer.Option(min=0, help="For the optimum of each problem.")] = 120.0,
    merging: Annotated[bool, typer.Option(help="Whether caches are merged too, which takes minutes.")] = True,
    model: Annotated[
        list[str] | None,
        typer.Option(
            help="Model whose caches are merged; may be repeated. Without it: four of torchvision's, if it is here."
        ),
    ] = None,
    size: Size = None,
    source: Annotated[
        str | None, typer.Option(help="What merged caches are timed on (see `bench engine`). Without it: predictions.")
    ] = None,
    frames: Annotated[int, typer.Option(min=1, help="How many frames are timed, after two to warm up.")] = 40,
    merging_limit_s: Annotated[float, typer.Option(min=0, help="For each evolution of merged caches.")] = 10.0,
    threads: Threads = _DEFAULTS.threads,
    json_file: JsonFile = None,
) -> None:
    """Arena sizes of every placement strategy, on the networks of the planner's paper and on hard problems; memory and
    time with all feature maps cached, with merged caches, and with none.

    Example: cacheinf bench memory --model torchvision:vgg19 --model torchvision:resnet50 --size 480x640
    """
    from cacheinf_ros.benchmarks.engine import WARM_UP
    from cacheinf_ros.benchmarks.memory import run_memory_benchmark
    from cacheinf_ros.benchmarks.merging import TORCHVISION_MODELS, run_merging_benchmark
    from cacheinf_ros.graph import load_model
    from cacheinf_ros.sources import open_source

    images = [frame.image for frame in itertools.islice(open_source(source), frames + WARM_UP)] if source else []
    chosen = () if not merging else TORCHVISION_MODELS if model is None and find_spec("torchvision") else model or ()
    models = [load_model(reference, input_size=parse_size(size)) for reference in chosen]
    report = run_memory_benchmark(instances, time_limit_s=time_limit_s)
    report["peak"] = {
        loaded.name: run_merging_benchmark(loaded, EngineConfig(threads=threads), images, time_limit_s=merging_limit_s)
        for loaded in models
    }
    _write(json_file, report)
    print_memory(report)


def _contenders(names: str) -> tuple[Any, ...]:
    from cacheinf_ros.benchmarks.contenders import Contender
    from cacheinf_ros.errors import ConfigError

    if names == "all":
        return tuple(Contender)
    try:
        return tuple(Contender(name.strip()) for name in names.split(",") if name.strip())
    except ValueError as error:
        raise ConfigError(f"contenders {names!r}: {error}; known: {', '.join(c.value for c in Contender)}") from None


def _write(path: Path | None, report: dict[str, Any]) -> None:
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")


def _print_engine(report: dict[str, Any]) -> None:
    title = (
        f"{report['model']} {report['size']}, {report['mode']}, {report['frames']} frames, {report['threads']} threads"
    )
    table = Table("engine", "p50 ms", "p95 ms", "mean ms", "mean vs cached", title=title)
    cached = report["latency_ms"]["cached"]["mean"]
    for name, values in report["latency_ms"].items():
        ratio = f"{values['mean'] / cached:.2f}x"
        table.add_row(name, *(f"{values[key]:.1f}" for key in ("p50", "p95", "mean")), ratio)
    console = Console()
    console.print(table)
    console.print(_quality_table(report))
    console.print(
        f"reused {report['reuse_ratio']['mean']:.1%} of the pixels, computed {report['active_flops']['mean']:.1%} of "
        f"the FLOPs; efficiency {_figure(report['efficiency'])}; missed change {_figure(report['missed_change'])}"
    )


def _quality_table(report: dict[str, Any]) -> Table:
    table = Table(
        "", "error, mean", "error, worst", "agreement", "F1", title="quality", caption=_COMPARED, caption_justify="left"
    )
    agreement, f1 = report["agreement"], report["f1"]
    for name in ("engine", "matching", "output"):
        _add_quality(table, name, report[f"{name}_error"], agreement.get(name), f1.get(name))
    _add_quality(table, "flicker", report["flicker"])
    for name in ("frame_skip", "output_warp"):
        policy = (report["policies"] or {}).get(name)
        if policy:
            _add_quality(table, name, policy["output_error"], policy["agreement"], policy["f1"])
    return table


def _add_quality(
    table: Table, name: str, error: dict[str, float] | None, agreement: float | None = None, f1: float | None = None
) -> None:
    errors = (error["mean"], error["max"]) if error else (None, None)
    table.add_row(name, *map(_figure, (*errors, agreement, f1)))


def _figure(value: float | None) -> str:
    """Four digits; nothing where nothing was measured."""
    return "" if value is None else f"{value:.4g}"


def _print_truncation(report: dict[str, Any]) -> None:
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


def _print_nodes(report: dict[str, Any]) -> None:
    table = Table(
        "nodes", "camera", "results", "p50 ms", "p95 ms", "beside matching and computing: p50 ms", "p95 ms",
        title=f"{report['model']}, {report['source']} at {report['rate']:g} Hz: from stamp to result",
    )  # fmt: skip
    for row in report["rows"]:
        figures = [f"{row[key][q]:.1f}" if row[key] else "-" for key in ("latency_ms", "beside_ms") for q in _QUANTILES]
        table.add_row(row["nodes"], row["camera"], f"{row['results']} of {row['published']}", *figures)
    Console().print(table)


def _print_matchers(report: dict[str, Any]) -> None:
    for size, algorithms in report["sizes"].items():
        table = Table("matcher", "p50 ms", "p95 ms", "match ratio", title=size)
        for name, values in algorithms.items():
            latency = values["latency_ms"]
            ratio = float(np.mean(values["match_ratio"]["mean"]))
            table.add_row(name, f"{latency['p50']:.2f}", f"{latency['p95']:.2f}", f"{ratio:.1%}")
        Console().print(table)
