# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Reproduces tables and figures of the MCDNN paper from what is measured here."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.catalog.beside_paper import with_paper
from benchmarks.catalog.plot import plot_day, plot_figure_11, plot_figure_12
from benchmarks.catalog.published import SPECIALISING_S
from benchmarks.catalog.setting import Progress, Setting
from benchmarks.papers.stated import NOTE
from cacheinf_ros.catalog.build.techniques import Recipe
from cacheinf_ros.catalog.catalog_folder import read_catalog
from cacheinf_ros.catalog.variant import Catalog, Place, Variant

TABLES = (3,)
FIGURES = (4, 5, 6, 10, 11, 12, 13)
_THEIRS = ("full_s", "retarget_s", "pre_forward_s")  # the columns of the paper's table 3
_LOSS = 0.04  # share of the accuracy: the paper's example of what ten times less memory costs


def table(number: int, data: Sequence[Path], progress: Progress) -> dict[str, Any]:
    """Measure table 3: how long specialising takes, by what is specialised.

    Args:
        number: one of :data:`TABLES`.
        data: not used.
        progress: called with what is being done.
    """
    from benchmarks.catalog.specialising_time import specialising_times

    progress("table 3: specialising")
    theirs = {
        f"the paper's {task}": dict(zip(_THEIRS, seconds, strict=True)) for task, seconds in SPECIALISING_S.items()
    }
    return {**theirs, **specialising_times(), NOTE: "the paper's rows come first; its tasks are not here"}


def figure(number: int, data: Sequence[Path], progress: Progress) -> dict[str, Any]:
    """Measure or simulate a figure of the paper.

    Args:
        number: one of :data:`FIGURES`.
        data: folders of catalogs for figures 4 to 6 and 11 to 13. Without any, four small ones are built for the
            figures that show measurements (4 to 6 show the same ones), while 11 and 12 simulate round numbers shaped
            after the paper's.
        progress: called with what is being done.
    """
    return with_paper(number, _FIGURES[number](data, progress))


def draw(number: int, found: dict[str, Any], path: Path) -> None:
    """Draw a figure as the paper has it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    _DRAWN[number](found, path)


def _curves(data: Sequence[Path], progress: Progress, points: Callable[[Variant], dict[str, float]]) -> dict[str, Any]:
    """Return the accuracy and the given figures of each variant on the device, by model."""
    catalogs = [read_catalog(folder).catalog for folder in data] if data else _small_catalogs(progress)
    return {
        catalog.model: [
            {"variant": variant.name, "accuracy": variant.accuracy, **points(variant)}
            for variant in catalog.variants
            if Place.DEVICE in variant.costs
        ]
        for catalog in catalogs
    }


@cache
def _small_catalogs(progress: Progress) -> Sequence[Catalog]:
    """Build small catalogs, which takes minutes: once for all figures of a report."""
    from benchmarks.catalog.day_catalogs import build_catalogs

    with tempfile.TemporaryDirectory(prefix="cacheinf_paper") as scratch:
        return tuple(read_catalog(folder).catalog for folder in build_catalogs(Path(scratch), progress, int8=True))


def figure_4(data: Sequence[Path], progress: Progress) -> dict[str, Any]:
    """Measure memory against accuracy, and how many times less memory suffices if 4 % of the accuracy may be lost."""
    curves = _curves(data, progress, lambda v: {"memory_mb": v.costs[Place.DEVICE].memory_bytes / 1e6})
    return {"curves": curves, "times_less": {m: _times_less(points, "memory_mb") for m, points in curves.items()}}


def figure_5(data: Sequence[Path], progress: Progress) -> dict[str, Any]:
    """Measure the energy of executing and of loading against accuracy, and the ratio of loading to executing.

    The result also has how many times less energy for executing suffices where 4 % of the accuracy may be lost.
    """

    def points(variant: Variant) -> dict[str, float]:
        cost = variant.costs[Place.DEVICE]
        return {"execute_j": cost.energy_j, "load_j": cost.load_energy_j}

    curves = _curves(data, progress, points)
    ratios = {m: [p["load_j"] / p["execute_j"] for p in found if p["execute_j"]] for m, found in curves.items()}
    return {
        "curves": curves,
        "load_over_execute": {m: float(np.median(each)) for m, each in ratios.items() if each},
        "times_less": {m: _times_less(found, "execute_j") for m, found in curves.items()},
    }


def figure_6(data: Sequence[Path], progress: Progress) -> dict[str, Any]:
    """Measure latency against accuracy: on the device, for loading, and in the cloud."""

    def points(variant: Variant) -> dict[str, float]:
        device, cloud = variant.costs[Place.DEVICE], variant.costs.get(Place.CLOUD)
        return {"device_ms": device.latency_ms, "load_ms": device.load_ms} | (
            {"cloud_ms": cloud.latency_ms} if cloud else {}
        )

    curves = _curves(data, progress, points)
    in_cloud = {m: [point for point in found if "cloud_ms" in point] for m, found in curves.items()}
    return {
        "curves": curves,
        "times_faster": {m: _times_less(found, "device_ms") for m, found in curves.items()},
        "times_faster_cloud": {m: _times_less(found, "cloud_ms") for m, found in in_cloud.items() if found},
    }


def figure_10(data: Sequence[Path], progress: Progress) -> dict[str, Any]:
    """Measure the cost and the accuracy (mean, least and most over the skews) of specialised and shared models."""
    from benchmarks.catalog.heads import run_heads_benchmark
    from benchmarks.catalog.specialise import run_specialisation_benchmark
    from cacheinf_ros.energy.power_model import PowerModel

    progress("figure 10: specialised")
    ahead = run_specialisation_benchmark(frames=100)["ahead_of_time"]
    power, specialised = PowerModel(idle_w=0.0), {}
    for name, took_ms in ahead["trunk_ms"].items():
        accuracies = [each["accuracy"] for each in ahead["candidates"] if each["trunk"] == name]
        if accuracies:
            specialised[name or "generic"] = {
                "accuracy": float(np.mean(accuracies)), "least": min(accuracies), "most": max(accuracies),
                "ms": took_ms, "execute_j": power.joules(took_ms, took_ms, 0.0, 0.0),
            }  # fmt: skip
    progress("figure 10: shared")
    heads = run_heads_benchmark()
    dense = heads["modes"]["dense"]
    added_ms = max(0.0, dense["together_ms"]["mean"] - dense["one_model_ms"]["mean"]) / len(heads["heads"])
    added = {"ms": added_ms, "execute_j": power.joules(added_ms, added_ms, 0.0, 0.0)}
    shared = {head["name"]: {"accuracy": head["accuracy"], **added} for head in heads["heads"]}
    return {"specialised": specialised, "shared": shared, "one_model_ms": dense["one_model_ms"]["mean"]}


def figure_11(data: Sequence[Path], progress: Progress) -> dict[str, Any]:
    """Simulate caching of variants at each load rate."""
    from benchmarks.catalog.simulated_days import run_figure_11

    return run_figure_11(_setting(data), progress)


def figure_12(data: Sequence[Path], progress: Progress) -> dict[str, Any]:
    """Simulate the policies of where to execute, as ever more models are specialised."""
    from benchmarks.catalog.simulated_days import run_figure_12

    return run_figure_12(_setting(data), progress)


def figure_13(data: Sequence[Path], progress: Progress) -> dict[str, Any]:
    """Run a day of real nodes."""
    from benchmarks.catalog.day import Day, run_day

    return run_day(Day(folders=data), progress)


_FIGURES: Mapping[int, Callable[[Sequence[Path], Progress], dict[str, Any]]] = {
    4: figure_4, 5: figure_5, 6: figure_6, 10: figure_10, 11: figure_11, 12: figure_12, 13: figure_13,
}  # fmt: skip


def _setting(data: Sequence[Path]) -> Setting:
    catalogs: tuple[Catalog, ...] = tuple(read_catalog(folder).catalog for folder in data)
    return replace(Setting(), catalogs=catalogs, folders=tuple(data), workers=len(os.sched_getaffinity(0)))


def _times_less(points: Sequence[Mapping[str, Any]], key: str) -> float:
    """Return by how many times the cheapest variant that loses at most 4 % of the accuracy undercuts the original."""
    original = next(point for point in points if point["variant"] == Recipe().name)
    enough = [point[key] for point in points if point["accuracy"] >= (1 - _LOSS) * original["accuracy"]]
    return float(original[key] / min(enough)) if min(enough) else 1.0


def _draw_curves(found: dict[str, Any], path: Path, keys: Mapping[str, str], label: str) -> None:
    """Plot points against accuracy: a colour per model, a marker per key, and a logarithmic vertical axis."""
    from matplotlib.figure import Figure

    figure_ = Figure(figsize=(6.5, 4.5), layout="constrained")
    axes: Any = figure_.subplots()
    for i, (model, points) in enumerate(found["curves"].items()):
        for key, marker in keys.items():
            there = [point for point in points if key in point]
            x, y = ([point[name] for point in there] for name in ("accuracy", key))
            axes.scatter(x, y, s=22, marker=marker, color=f"C{i}", label=f"{model}, {key}")
    axes.set(xlabel="accuracy", ylabel=label, yscale="log")
    axes.grid(alpha=0.25)
    axes.legend(fontsize="xx-small")
    figure_.savefig(path, dpi=110)


def _draw_figure_10(found: dict[str, Any], path: Path) -> None:
    from matplotlib.figure import Figure

    figure_ = Figure(figsize=(11.0, 4.2), layout="constrained")
    for axes, key in zip(figure_.subplots(1, 2), ("execute_j", "ms"), strict=True):
        for name, each in found["specialised"].items():
            axes.plot([each["least"], each["most"]], [each[key]] * 2, marker="|", label=name)
            axes.plot(each["accuracy"], each[key], "o", color=axes.lines[-1].get_color())
        for name, each in found["shared"].items():
            axes.plot(each["accuracy"], each[key], "s", label=f"shared: {name}")
        axes.set(xlabel="accuracy", ylabel=key)
        axes.grid(alpha=0.25)
        axes.legend(fontsize="xx-small")
    figure_.savefig(path, dpi=110)


_DRAWN: Mapping[int, Callable[[dict[str, Any], Path], None]] = {
    4: lambda found, path: _draw_curves(found, path, {"memory_mb": "o"}, "MB on the device"),
    5: lambda found, path: _draw_curves(found, path, {"execute_j": "x", "load_j": "o"}, "J"),
    6: lambda found, path: _draw_curves(found, path, {"device_ms": "x", "load_ms": "+", "cloud_ms": "o"}, "ms"),
    10: _draw_figure_10,
    11: plot_figure_11,
    12: plot_figure_12,
    13: plot_day,
}
