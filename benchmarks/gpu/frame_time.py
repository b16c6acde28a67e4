# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Predicts the time of a frame on a GPU by the model of :mod:`benchmarks.gpu.predicted_frames`.

python -m benchmarks.gpu.frame_time --device orin-agx --json orin.json

Nothing is computed: active sets are modelled as rectangles. ``--measure``, on a machine with CUDA, also runs the real
program, and prints the measured times next to the predicted ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from benchmarks.gpu.devices import DEVICES, Arithmetic
from benchmarks.gpu.measured_frames import measured_dense_ms, measured_ms
from benchmarks.gpu.predicted_frames import dense_frame, input_us, sparse_frame
from cacheinf_ros.cli.bench.bench_report import write_report
from cacheinf_ros.cli.options import JsonFile
from cacheinf_ros.config import parse_size
from cacheinf_ros.engine.engine_config import Precision
from cacheinf_ros.engine.execution.active import ActiveSet
from cacheinf_ros.engine.execution.graph_planner import Planner
from cacheinf_ros.engine.execution.plan import Plan
from cacheinf_ros.engine.half_maps import kept_floats, with_maps_in
from cacheinf_ros.engine.layout import Layout, lay_out
from cacheinf_ros.engine.rematerialisation.regions import RegionModel
from cacheinf_ros.graph import Graph, Model, load_model

SHARES = (0.01, 0.05, 0.2, 1.0)
MODELS = "torchvision:resnet50,benchmarks.gpu.yolo_shape:Yolo8s"
SIZES = "480x640,736x1280,2176x3840"
_PRECISIONS = {Arithmetic.TF32X3: Precision.FLOAT32, Arithmetic.BFLOAT16: Precision.BFLOAT16}


def predicted_rows(
    model: Model, devices: Sequence[str], shares: Sequence[float] = SHARES, cameras: int = 1
) -> list[dict[str, Any]]:
    """Predict a row for each device and share of changed pixels, which form a rectangle in the middle of the input.

    Args:
        cameras: number of cameras computed in one pass; their time is given in addition to a single frame's.
    """
    planned = {arithmetic: _planned(model.graph, precision, shares) for arithmetic, precision in _PRECISIONS.items()}
    rows = []
    for name in devices:
        device = DEVICES[name]
        dense = dense_frame(planned[Arithmetic.TF32X3].layout, device)
        for i, share in enumerate(shares):
            row: dict[str, Any] = {
                "model": model.name, "size": "{}x{}".format(*model.input_size), "device": name, "changed": share,
                "dense_float16_ms": dense.milliseconds, "dense_launches": dense.launches,
                "cameras": cameras,
            }  # fmt: skip
            for arithmetic, each in planned.items():
                active = {each_set: int(count[i]) for each_set, count in each.counts.items()}
                frame, kind = sparse_frame(each.plan, each.layout, active, device, arithmetic), arithmetic.value
                together = sparse_frame(each.plan, each.layout, active, device, arithmetic, cameras=cameras)
                row |= {
                    "launches": frame.launches,
                    f"{kind}_ms": frame.milliseconds,
                    f"{kind}_together_ms": together.milliseconds,
                    "together_launches": together.launches,
                    f"{kind}_ratio": dense.milliseconds / frame.milliseconds,
                    f"{kind}_bound": frame.bound.value,
                    f"{kind}_us_by_bound": {bound.value: took for bound, took in frame.microseconds.items()},
                    f"{kind}_input_us": {
                        where: input_us(
                            each.plan, each.layout, active[each.plan.input], device, on_device=where == "device"
                        )
                        for where in ("cpu", "device")
                    },
                }
            rows.append(row)
    return rows


@dataclass(frozen=True, slots=True, kw_only=True)
class _Planned:
    """A graph as a device computes it in some precision, and each set's number of active pixels by share."""

    layout: Layout
    plan: Plan
    counts: Mapping[ActiveSet, NDArray[np.int64]]


def _planned(graph: Graph, precision: Precision, shares: Sequence[float]) -> _Planned:
    layout = lay_out(with_maps_in(graph, kept_floats("cuda", precision)))
    plan = Planner(layout).plan()
    return _Planned(layout=layout, plan=plan, counts=RegionModel(shares).counts(plan))


def add_measured(rows: Sequence[dict[str, Any]], model: Model) -> None:
    """Add to the rows what each share takes on this machine's CUDA device."""
    shares = sorted({row["changed"] for row in rows})
    dense_ms = measured_dense_ms(model)
    for row in rows:
        row["dense_float16_measured_ms"] = dense_ms
    for arithmetic, precision in _PRECISIONS.items():
        took = dict(zip(shares, measured_ms(model, shares, precision), strict=True))
        for row in rows:
            row[f"{arithmetic.value}_measured_ms"] = took[row["changed"]]


def main(
    models: Annotated[str, typer.Option(help="References of models, separated by commas.")] = MODELS,
    sizes: Annotated[str, typer.Option("--sizes", metavar="SIZES", help="HEIGHTxWIDTH, separated by commas.")] = SIZES,
    device: Annotated[
        str, typer.Option(help=f"Devices to predict for, separated by commas: {', '.join(DEVICES)}.")
    ] = ",".join(DEVICES),
    cameras: Annotated[int, typer.Option(min=1, help="Computed in one pass, launches shared, beside one by one.")] = 8,
    measure: Annotated[
        bool,
        typer.Option(help="Also run the program on this machine's CUDA device, and torch in float16."),
    ] = False,
    json_file: JsonFile = None,
) -> None:
    """Predict how long sparse and dense frames take on GPUs; where this was compared with a GPU, they took longer."""
    names = device.split(",")
    if measure and len(names) > 1:
        raise typer.BadParameter("--measure is for one device, this machine's: name it with --device")
    if unknown := set(names) - set(DEVICES):
        raise typer.BadParameter(f"no figures of {', '.join(sorted(unknown))}: one of {', '.join(DEVICES)}")
    rows = []
    for reference in models.split(","):
        for size in sizes.split(","):
            model = load_model(reference, input_size=parse_size(size))
            found = predicted_rows(model, names, cameras=cameras)
            if measure:
                add_measured(found, model)
            rows += found
    write_report(json_file, {"measured": measure, "frames": rows})
    _print(rows, names)


def _print(rows: Sequence[dict[str, Any]], names: Sequence[str]) -> None:
    kinds = [arithmetic.value for arithmetic in _PRECISIONS]
    for name in names:
        heads = [
            f"{kind} {what}" for kind in kinds for what in ("ms", "dense/it", "bound", f"{rows[0]['cameras']} together")
        ]
        table = Table(
            "model", "size", "changed", "launches", "dense float16 ms", *heads, title=f"{DEVICES[name].name}: predicted"
        )
        for row in (row for row in rows if row["device"] == name):
            cells = []
            for kind in kinds:
                cells += [
                    _beside(row[f"{kind}_ms"], row.get(f"{kind}_measured_ms")),
                    f"{row[f'{kind}_ratio']:.2f}",
                    row[f"{kind}_bound"],
                ]
                cells.append(f"{row[f'{kind}_together_ms']:.2f}")
            dense = _beside(row["dense_float16_ms"], row.get("dense_float16_measured_ms"))
            model = Path(row["model"]).name.rpartition(":")[2]
            table.add_row(model, row["size"], f"{row['changed']:.0%}", str(row["launches"]), dense, *cells)
        Console().print(table)


def _beside(predicted: float, measured: float | None) -> str:
    return f"{predicted:.2f}" if measured is None else f"{predicted:.2f} (measured {measured:.2f})"


if __name__ == "__main__":
    typer.run(main)
