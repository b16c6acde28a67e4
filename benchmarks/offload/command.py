# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The commands ``cacheinf bench offload-plot``, ``offload-map`` and ``offload-check``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from cacheinf_ros.cli.bench.bench_report import shown_progress, write_report
from cacheinf_ros.cli.options import JsonFile, ModelReference, Size
from cacheinf_ros.config import parse_size
from cacheinf_ros.errors import ConfigError

_KEYS = {
    "model",
    "weights",
    "size",
    "source",
    "frames",
    "warm",
    "threshold",
    "robot_cores",
    "wire_image",
    "bandwidth",
}  # of a report, among others


def offload_plot(
    reports: Annotated[list[Path], typer.Argument(help="JSON files of `cacheinf bench offload`.", exists=True)],
    out: Annotated[Path, typer.Option(help="The picture.")] = Path("offload.png"),
) -> None:
    """Plot latency by bandwidth, and over time where the link follows a trace.

    Example: cacheinf bench offload-plot fixed.json wireless.json --out offload.png
    """
    from benchmarks.offload.plot import plot_offload

    plot_offload([_read_report(path, {"bandwidth"}) for path in reports], out)


def offload_map(
    model: ModelReference = "scenenet",
    size: Size = None,
    schedule_s: Annotated[float, typer.Option(min=0.1, help="Search for schedules, s, for each speed.")] = 15.0,
    budget_mb: Annotated[
        float | None,
        typer.Option(min=0.0, help="Memory for the cache, 10**6 bytes; the last column compares with everything kept."),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="The picture.")] = None,
    json_file: JsonFile = None,
) -> None:
    """Predict which policy is best by bandwidth, server speed and reuse, from operators' times on this machine.

    Example: cacheinf bench offload-map --model torchvision:resnet50 --size 480x640 --out map.png
    """
    from benchmarks.offload.policy_map import beside_everything, plot_policy_map, policy_map
    from cacheinf_ros.engine import Engine, EngineConfig
    from cacheinf_ros.graph import load_model
    from cacheinf_ros.offload.planning import Workload, profile

    network = load_model(model, input_size=parse_size(size))
    engine = Engine(network, EngineConfig(threads=1))
    workload = Workload(engine.program.layout)
    with shown_progress("solving") as show:
        robot_ms = profile(engine.program.layout, workload.space, engine.cost)
        places = policy_map(workload, robot_ms, schedule_s=schedule_s, progress=show)
        if budget_mb is not None:
            show("choosing which maps are kept")
            merged = Engine(network, EngineConfig(threads=1, cache_budget_mb=budget_mb), with_server=True)
            assert merged.shared is not None
            layout, space = merged.program.layout, merged.shared.space
            # operators take what was measured before: two measurements would differ
            within = policy_map(
                Workload(layout, space), profile(layout, space, engine.cost), schedule_s=schedule_s, progress=show
            )
            places = beside_everything(within, places)
    write_report(
        json_file,
        {"model": model, "budget_mb": budget_mb, "robot_ms": float(robot_ms[:, -1].sum()), "places": places},
    )
    more = [] if budget_mb is None else ["/ everything kept"]
    table = Table("speed", "Mbit/s", "reuse", "best baseline", "ms", "cacheinf", "/ baseline", "/ best", *more)
    for place in places:
        took = place["ms"]
        table.add_row(
            f"{place['speed']:g}", f"{place['mbit_s']:g}", f"{place['reuse']:g}", place["best_baseline"],
            f"{took[place['best_baseline']]:.1f}", f"{took['cacheinf']:.1f}", f"{place['over_baseline']:.2f}",
            f"{place['over_best']:.2f}", *(f"{place['over_everything']:.2f}" for _ in more),
        )  # fmt: skip
    Console().print(table)
    if out is not None:
        plot_policy_map(places, out)


def offload_check(
    report: Annotated[Path, typer.Argument(help="JSON file of `cacheinf bench offload`.", exists=True)],
    schedule_s: Annotated[float, typer.Option(min=0.1, help="Search for schedules, s.")] = 15.0,
    json_file: JsonFile = None,
) -> None:
    """Predict what `cacheinf bench offload` measured, and show both.

    Once from where the frames' changes are, as robots predict, once from how much has changed, as `offload-map` does.

    Example: cacheinf bench offload-check offload.json
    """
    from benchmarks.offload.measured_places import network_of, observed_activities, predicted_places

    measured = _read_report(report, _KEYS)
    with shown_progress("measuring operators") as show:
        engine, workload, one_core_ms = network_of(measured)
        show("matching the frames")
        activities = observed_activities(measured, engine, workload)
        places = predicted_places(workload, one_core_ms, measured, activities, schedule_s=schedule_s, progress=show)
    write_report(json_file, {"report": str(report), "places": places})
    table = Table(
        "Mbit/s",
        "server",
        "reuse",
        "policy",
        "measured ms",
        "predicted ms",
        "/ measured",
        "by the map ms",
        "/ measured",
    )
    for place in places:
        for policy, predicted in place["predicted"].items():
            took, by_map = place["measured"][policy], place["by_map"][policy]
            table.add_row(
                f"{place['mbit_s']:g}", f"{place['speed']:.3g} times", f"{place['reuse']:.3f}", policy, f"{took:.1f}",
                f"{predicted:.1f}", f"{predicted / took:.2f}", f"{by_map:.1f}", f"{by_map / took:.2f}",
            )  # fmt: skip
        table.add_section()
    console = Console()
    console.print(table)
    for place in places:
        console.print(
            f"{place['mbit_s']:g} Mbit/s: the policy that is predicted to be the best took {place['regret']:.2f} times "
            f"as long as the one that was; in the map, look at reuse {place['reads_as']:.2f}"
        )


def _read_report(path: Path, keys: set[str]) -> dict[str, Any]:
    """Read what ``cacheinf bench offload`` wrote; raises :class:`ConfigError` where it has not all of these keys."""
    try:
        report = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ConfigError(f"{path} is no JSON file: {error}") from None
    if not isinstance(report, dict) or not report.keys() >= keys:
        raise ConfigError(f"{path} is no report of `cacheinf bench offload` of this version: run it again with --json")
    return report
