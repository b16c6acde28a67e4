"""``cacheinf bench``: how every figure of the project is measured."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console
from rich.table import Table

from cacheinf_ros.cli.options import JsonFile, ModelReference, Size, SourceReference, Threads, Weights
from cacheinf_ros.config import parse_size
from cacheinf_ros.engine import EngineConfig, Mode

bench = typer.Typer(
    help="Measure latency and error. All contenders run interleaved in one process with the same number of threads.",
    no_args_is_help=True,
)
_DEFAULT_SCENE = "scene:fixed"
_DEFAULTS = EngineConfig()


@bench.command()
def engine(
    model: ModelReference = "scenenet",
    weights: Weights = None,
    size: Size = None,
    source: SourceReference = _DEFAULT_SCENE,
    frames: Annotated[int, typer.Option(min=1, help="How many frames are counted, after two to warm up.")] = 60,
    mode: Annotated[Mode, typer.Option(help="What is taken from the cache.")] = Mode.EXACT,
    threshold: Annotated[
        float | None,
        typer.Option(
            help="PSNR in dB above which a block is reused. Without it: identical blocks in exact mode, else 20."
        ),
    ] = None,
    device: Annotated[str, typer.Option(help="Torch device of the cached engine.")] = _DEFAULTS.device,
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
    from cacheinf_ros.graph import load_model
    from cacheinf_ros.sources import open_source

    images = (frame.image for frame in open_source(source))
    report = run_engine_benchmark(
        load_model(model, weights=weights, input_size=parse_size(size)),
        images,
        frames=frames,
        mode=mode,
        threads=threads,
        threshold_db=threshold,
        device=device,
        contenders=_contenders(contenders),
    )
    _write(json_file, {"source": Path(source).name, **report})
    _print_engine(report)


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
    error = report["output_error"]
    console.print(
        f"reused {report['reuse_ratio']['mean']:.1%} of the pixels, computed {report['active_flops']['mean']:.1%} of "
        f"the FLOPs; output error {error['mean']:.2g} (worst {error['max']:.2g})"
    )


def _print_matchers(report: dict[str, Any]) -> None:
    for size, algorithms in report["sizes"].items():
        table = Table("matcher", "p50 ms", "p95 ms", "match ratio", title=size)
        for name, values in algorithms.items():
            latency = values["latency_ms"]
            ratio = float(np.mean(values["match_ratio"]["mean"]))
            table.add_row(name, f"{latency['p50']:.2f}", f"{latency['p95']:.2f}", f"{ratio:.1%}")
        Console().print(table)
