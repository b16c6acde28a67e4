# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""``cacheinf bench engine``: compares cached inference with every dense engine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from cacheinf_ros.cli.bench.measured_options import MeasuredOptions
from cacheinf_ros.cli.bench.placed_options import PlacedOptions
from cacheinf_ros.cli.options import described, with_options
from cacheinf_ros.engine import Cache, EngineConfig
from cacheinf_ros.errors import ConfigError
from cacheinf_ros.matching import MatcherName, MatchingConfig, matching_for
from cacheinf_ros.mode import Mode

_DEFAULTS = EngineConfig()
_COMPARED = (
    "engine: cached with dense on the composed input (the frame where active, the cache's elsewhere); matching: dense "
    "on that with dense on the frame; output: cached with dense on the frame; flicker: dense with the frame before; "
    "frame_skip, output_warp: the last dense output, as it is or moved with the picture, in the time cached takes"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class MatchingOptions:
    """Options for how frames are compared; None: as the mode requires."""

    matcher: Annotated[
        MatcherName | None, typer.Option(help="Without it: diamond_optimised in deepcache mode, else identity.")
    ] = None
    threshold: Annotated[
        float | None,
        typer.Option(
            help="PSNR in dB above which a block is reused. Without it: 20 in deepcache mode, else identical blocks."
        ),
    ] = None
    block_size: Annotated[int | None, described(MatchingConfig, "block_size")] = None
    k_skip: Annotated[int | None, described(MatchingConfig, "k_skip")] = None
    expiry: Annotated[int | None, described(MatchingConfig, "expiry")] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineOptions:
    """Options of ``cacheinf bench engine``: what to measure, and what to compare it with."""

    measured: MeasuredOptions
    changed: Annotated[
        str | None,
        typer.Option(
            metavar="SHARE[:PATTERN]",
            help="In place of a source: a photograph in which this share of the pixels changes from frame to frame, "
            "in one square (blob) or in single pixels (scatter).",
        ),
    ] = None
    frames: Annotated[int, typer.Option(min=1, help="How many frames are counted, after two to warm up.")] = 60
    mode: Annotated[
        Mode | None,
        typer.Option(
            help="What is taken from the cache. Without it: exact; bounded with a matcher other than identity. dense "
            "keeps no maps, whatever the budget.",
        ),
    ] = None
    max_error: Annotated[float, described(EngineConfig, "max_error")] = _DEFAULTS.max_error
    max_missed: Annotated[float, described(EngineConfig, "max_missed")] = _DEFAULTS.max_missed
    calibration_frames: Annotated[
        int, typer.Option(min=2, help="Bounded mode: how many frames it is calibrated on, before those that count.")
    ] = 8
    matching: MatchingOptions
    placed: PlacedOptions
    cameras: Annotated[
        int,
        typer.Option(
            min=1,
            help="From 2 on: in place of dense engines this many cached ones, of shifted copies of the source, "
            "computed together (device cuda) and one after the other.",
        ),
    ] = 1
    cache: Annotated[Cache, described(EngineConfig, "cache")] = _DEFAULTS.cache
    cache_budget_mb: Annotated[float, described(EngineConfig, "cache_budget_mb")] = _DEFAULTS.cache_budget_mb


@with_options(EngineOptions)
def engine(options: EngineOptions) -> None:
    """Compare cached inference with every dense engine, frame by frame.

    Example: cacheinf bench engine --model torchvision:resnet50 --size 480x640 --source clip.mp4 --json out.json
    """
    from cacheinf_ros.bench import Change, changing, recorded, run_camera_benchmark, run_engine_benchmark
    from cacheinf_ros.sources import open_source

    change = Change.parse(options.changed) if options.changed else None
    by_identity = options.matching.matcher in (None, MatcherName.IDENTITY)
    mode = options.mode or (Mode.EXACT if by_identity else Mode.BOUNDED)
    measured = options.measured
    config = EngineConfig.checked(
        mode=mode,
        device=options.placed.device,
        threads=measured.threads,
        precision=options.placed.precision,
        cache=options.cache,
        cache_budget_mb=0.0 if mode is Mode.DENSE else options.cache_budget_mb,
        max_error=options.max_error,
        max_missed=options.max_missed,
    )
    if options.cameras > 1 and (change or mode is Mode.BOUNDED):
        raise ConfigError("--cameras is for a source that is played, and not for mode bounded: leave --changed out")
    model = measured.load()
    if options.cameras > 1:
        shots, matching = recorded(open_source(measured.source)), _matching(options, mode)
        report = run_camera_benchmark(model, shots, config, matching, options.frames, options.cameras)
        measured.write(report)
        _print_cameras(report)
        return
    report = run_engine_benchmark(
        model,
        changing(change, model.input_size) if change else recorded(open_source(measured.source)),
        config=config,
        matching=None if change else _matching(options, mode),
        frames=options.frames,
        calibration_frames=options.calibration_frames,
        contenders=options.placed.wanted(),
    )
    measured.write(report, f"changed {options.changed}" if options.changed else None)
    _print(report)


def _matching(options: EngineOptions, mode: Mode) -> MatchingConfig:
    return matching_for(
        mode,
        threshold_db=options.matching.threshold,
        matcher=options.matching.matcher,
        block_size=options.matching.block_size,
        k_skip=options.matching.k_skip,
        expiry=options.matching.expiry,
    )


def _print_cameras(report: dict[str, Any]) -> None:
    title = f"{report['model']} {report['size']}, {report['cameras']} cameras, {report['frames']} frames of each"
    table = Table("engines", "p50 ms", "p95 ms", "mean ms", title=escape(title), caption="a frame of every camera")
    for name, values in report["latency_ms"].items():
        table.add_row(name, *(f"{values[key]:.1f}" for key in ("p50", "p95", "mean")))
    console = Console()
    console.print(table)
    console.print(f"largest difference of an output: {report['largest_difference']:.3g}")


def _print(report: dict[str, Any]) -> None:
    title = (
        f"{report['model']} {report['size']}, {report['mode']}, {report['frames']} frames, {report['threads']} threads"
    )
    table = Table("engine", "p50 ms", "p95 ms", "mean ms", "mean vs cached", title=escape(title))
    cached = report["latency_ms"]["cached"]["mean"]
    for name, values in report["latency_ms"].items():
        ratio = f"{values['mean'] / cached:.2f}x"
        table.add_row(name, *(f"{values[key]:.1f}" for key in ("p50", "p95", "mean")), ratio)
    console = Console()
    console.print(table)
    for name, reason in report["not_measured"].items():
        console.print(f"{name} was not measured: {reason}", markup=False)
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
    """Return the value with four digits, or an empty text where nothing was measured."""
    return "" if value is None else f"{value:.4g}"
