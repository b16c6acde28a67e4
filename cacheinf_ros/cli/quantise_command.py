# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""``cacheinf quantise``: finds scales for a model in int8 from the user's own recording."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from cacheinf_ros.cli.bench.bench_report import write_report
from cacheinf_ros.cli.options import JsonFile, Size, SourceReference, Threads, Weights
from cacheinf_ros.config import parse_size
from cacheinf_ros.engine import EngineConfig
from cacheinf_ros.errors import ConfigError

if TYPE_CHECKING:
    from cacheinf_ros.engine.quantisation import Quantised
    from cacheinf_ros.graph import Model

_DEFAULTS = EngineConfig()
_STEP = 10  # every so many frames one is taken, where the length of the recording is unknown
_WORST = 12  # the number of tensors in the report


def quantise(
    model: Annotated[str, typer.Argument(help="A built-in model or any reference (see `cacheinf models list`).")],
    source: SourceReference,
    weights: Weights = None,
    size: Size = None,
    frames: Annotated[int, typer.Option(min=1, max=1000, help="How many frames, spread over the recording.")] = 32,
    threads: Threads = _DEFAULTS.threads,
    json_file: JsonFile = None,
) -> None:
    """Find out how to compute a model in int8, on a recording that shows what the camera will see.

    The scales are kept for nodes and commands with precision int8, in place of earlier ones. The report says what int8
    costs at the outputs and at every tensor: RMS of the error over the standard deviation.

    Example: cacheinf quantise FastestDet.onnx --source clip.mp4
    """
    from cacheinf_ros.engine.frame_placement import check_voxels
    from cacheinf_ros.engine.quantisation import keep_scales, own_scales, spread
    from cacheinf_ros.engine.quantisation import quantise as find_scales
    from cacheinf_ros.graph import load_model
    from cacheinf_ros.sources import open_source, voxel_grid_of

    loaded = load_model(model, weights=weights, input_size=parse_size(size))
    if own_scales(loaded) is not None:
        raise ConfigError(f"{loaded.name} was quantised already, and keeps its own scales: set precision to int8")
    recording = open_source(source)
    check_voxels(voxel_grid_of(source), loaded.card)
    wanted = spread(recording.length or frames * _STEP, frames)
    images = [frame.image for frame in islice(recording, wanted[-1] + 1) if frame.index in wanted]
    console = Console()
    with console.status("") as status:
        found = find_scales(loaded, images, threads, status.update)
    kept = keep_scales(loaded, found.scales)
    _print(console, loaded, found)
    write_report(json_file, _report(loaded, found, len(images)))
    if kept is None:
        raise ConfigError("the scales could not be kept, the log says why: make room, or set XDG_CACHE_HOME")
    console.print(f"kept in {kept}: set precision to int8", soft_wrap=True, highlight=False, markup=False)


def _print(console: Console, model: Model, found: Quantised) -> None:
    from cacheinf_ros.engine.quantisation import describe, int8_graph

    table = Table(
        "tensor", "error", title=f"{escape(model.name)}: the {_WORST} tensors with the largest errors, and all outputs"
    )
    for name, error in sorted(found.tensor_errors.items(), key=lambda item: -item[1])[:_WORST]:
        table.add_row(escape(name), f"{error:.4f}")
    table.add_section()
    for name, error in found.output_errors.items():
        table.add_row(f"output {escape(name)}", f"{error:.4f}")
    console.print(table)
    told = f"{describe(int8_graph(model.graph, found.scales))}; ranges by {found.method.value}"
    tried = "tried: " + "; ".join(f"{what} {error:.4f}" for what, error in found.tried.items())
    console.print(told, tried, sep="\n", highlight=False, markup=False)


def _report(model: Model, found: Quantised, frames: int) -> dict[str, object]:
    return {
        "model": model.name,
        "size": "x".join(map(str, model.input_size)),
        "frames": frames,
        "ranges": found.method.value,
        "error": found.error,
        "outputs": dict(found.output_errors),
        "tensors": dict(found.tensor_errors),
        "tried": dict(found.tried),
        "float32": sorted(found.scales.floats),
    }
