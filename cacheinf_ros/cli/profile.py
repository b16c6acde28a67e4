# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""``cacheinf profile``: measures what each operator of a model takes on this machine."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from cacheinf_ros.cli.bench.bench_report import write_report
from cacheinf_ros.cli.options import JsonFile, Size, Threads, Weights, described
from cacheinf_ros.config import parse_size
from cacheinf_ros.engine import EngineConfig, Precision

_DEFAULTS = EngineConfig()


def profile(
    model: Annotated[str, typer.Argument(help="A built-in model or any reference (see `cacheinf models list`).")],
    weights: Weights = None,
    size: Size = None,
    threads: Threads = _DEFAULTS.threads,
    precision: Annotated[Precision, described(EngineConfig, "precision")] = _DEFAULTS.precision,
    reuse: Annotated[float, typer.Option(min=0, max=1, help="Reuse ratio of the input.")] = 0.95,
    json_file: JsonFile = None,
) -> None:
    """Measure what each operator takes on this machine, and tell its operations, weights, active share and output.

    Operations are the multiplications and additions of convolutions and linear layers (MFLOP); others have few.

    Measured once and stored; the nodes use the same figures for their schedules.

    With precision int8 scales are needed, see `cacheinf quantise`; a level takes one byte, a float four.

    Example: cacheinf profile torchvision:resnet50 --size 480x640 --reuse 0.95
    """
    from cacheinf_ros.engine import Engine
    from cacheinf_ros.engine.cost import POINTS
    from cacheinf_ros.graph import load_model, operator_weight_bytes
    from cacheinf_ros.offload.planning import Workload, at_share, tensor_bytes
    from cacheinf_ros.offload.planning import profile as profile_of

    loaded = load_model(model, weights=weights, input_size=parse_size(size))
    engine = Engine(loaded, EngineConfig.checked(threads=threads, precision=precision), with_server=True)
    workload = Workload(engine.program.layout)
    took, active = profile_of(engine.program.layout, workload.space, engine.cost), workload.active_at(reuse)[1:]
    now = at_share(took, active)
    table = Table(
        "operator", "rows", "MFLOP", "KiB of weights", "ms", f"active at {reuse:g}", "ms then", "KiB of output"
    )
    rows: list[dict[str, Any]] = []
    layout = engine.program.layout
    operators = {operator.output: operator for operator in layout.operators}
    memory = tensor_bytes(workload)[1:]
    for i, name in enumerate(workload.names):
        kib, weight_kib = float(memory[i] / 1024), operator_weight_bytes(operators[name]) / 1024
        height, flops = int(workload.heights[i + 1]), layout.graph.flops(operators[name])
        table.add_row(
            escape(name), str(height), f"{flops / 1e6:.1f}", f"{weight_kib:.0f}", f"{took[i, -1]:.3f}",
            f"{active[i]:.1%}", f"{now[i]:.3f}", f"{kib:.0f}",
        )  # fmt: skip
        curve = dict(zip(map(str, POINTS), took[i].tolist(), strict=True))
        rows.append({
            "operator": name, "rows": height, "flops": flops, "weight_kib": weight_kib, "ms": curve,
            "active": float(active[i]), "kib": kib,
        })  # fmt: skip
    console = Console()
    console.print(table)
    console.print(f"{took[:, -1].sum():.1f} ms in all; {now.sum():.1f} ms at a reuse ratio of {reuse:g}")
    write_report(json_file, {"model": loaded.name, "operators": rows})
