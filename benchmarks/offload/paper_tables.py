# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Tables and figures of the CacheInf draft: real nodes over shaped links (:mod:`.run`).

Its robots, its network of key points (Kapao) and its point clouds (AGRNav) are not here. For the networks of
torchvision that tables 4 and 5 name, with weights drawn at random, the systems are compared on whatever frames are
given; tables 1 and 2 are the same figures of scenenet, the detector that is here.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.offload.equation_8 import memory_of, memory_row
from benchmarks.offload.setting import Setting
from cacheinf_ros.config import parse_size

TABLES = (1, 2, 3, 4, 5, 6)
FIGURES = (5, 6)
SYSTEMS = {
    "Local": "local_dense", "DS": "dnn_surgery", "DS-C": "dnn_surgery_cached", "HP": "hybrid_parallel",
    "Ours": "cacheinf",
}  # fmt: skip
"""What the paper calls the systems. DS is DSCCS (Liang 2023) there and DADS (Hu 2019) here."""
_DETECTOR = {"scenenet": ("Kapao", "480x640")}
_CLASSIFIERS = {
    "torchvision:regnet_x_16gf": ("RegNet", "224x224"),
    "torchvision:vgg19": ("VGG19", "224x224"),
    "torchvision:convnext_large": ("ConvNeXt", "224x224"),
}
_NETWORKS = {1: _DETECTOR, 2: _DETECTOR, 3: _DETECTOR, 4: _CLASSIFIERS, 5: _CLASSIFIERS, 6: _CLASSIFIERS}
_LINKS = ("indoor", "outdoor")
_MBIT_S = "48"
_FRAMES, _ROUNDS = 30, 1
_SOURCE = "scene:handheld"
_BINS = (0.0, 0.2, 0.4, 0.6, 0.8, 0.9, 1.0001)  # of the reuse ratio

_Row = tuple[float | None, float | None, float | None, float | None]

PUBLISHED: Mapping[str, Mapping[str, tuple[_Row, _Row]]] = {
    "Kapao": {
        "Local": ((None, None, 1010.0, 1010.0), (None, None, 9.79, 9.79)),
        "DS": ((210.0, 240.0, 360.0, 400.0), (None, None, 2.30, 2.65)),
        "DS-C": ((220.0, 250.0, 320.0, 340.0), (None, None, 2.02, 2.22)),
        "HP": ((240.0, 280.0, 310.0, 340.0), (None, None, 2.19, 2.35)),
        "Ours": ((160.0, 210.0, 200.0, 240.0), (None, None, 1.51, None)),
    },
    "RegNet": {
        "Local": ((None, None, 175.0, 175.0), (9.0, 9.0, 1.37, 1.37)),
        "DS": ((47.6, 60.5, 77.8, 86.2), (5.84, 5.36, 0.45, 0.46)),
        "DS-C": ((50.7, 62.5, 70.8, 79.5), (6.04, 5.96, 0.43, 0.47)),
        "HP": ((49.6, 59.9, 55.0, 64.2), (5.24, 5.28, 0.29, 0.34)),
        "Ours": ((44.2, 48.5, 45.3, 49.2), (5.20, 5.23, 0.24, 0.26)),
    },
    "VGG19": {
        "Local": ((None, None, 118.0, 118.0), (9.78, 9.78, 0.95, 0.95)),
        "DS": ((38.9, 41.6, 65.2, 75.5), (6.58, 6.93, 0.43, 0.52)),
        "DS-C": ((42.7, 52.0, 53.2, 60.3), (6.82, 7.23, 0.36, 0.43)),
        "HP": ((44.8, 51.5, 47.6, 53.6), (6.51, 7.32, 0.31, 0.39)),
        "Ours": ((37.8, 43.5, 41.1, 46.6), (6.70, 7.22, 0.27, 0.34)),
    },
    "ConvNeXt": {
        "Local": ((None, None, 316.7, 316.7), (9.92, 9.92, 3.12, 3.12)),
        "DS": ((56.0, 67.0, 79.2, 90.6), (5.06, 5.02, 0.40, 0.45)),
        "DS-C": ((56.0, 63.0, 64.7, 68.6), (4.86, 4.99, 0.31, 0.34)),
        "HP": ((56.4, 66.5, 59.7, 68.0), (4.57, 4.54, 0.27, 0.31)),
        "Ours": ((40.4, 46.9, 44.7, 49.0), (5.26, 5.39, 0.24, 0.26)),
    },
}  # fmt: skip
"""By network and system: ms of transmission and of inference, and W and J, each indoors and outdoors; None: not told,
or not legible in the text that is here."""
_MEMORY = {
    "Kapao": (300.6, 1782.5, 494.7),
    "RegNet": (207.5, 427.7, 258.9),
    "VGG19": (548.1, 668.7, 582.8),
    "ConvNeXt": (765.4, 1152.7, 789.8),
}
"""MB without a cache, with all of it, and with CacheInf's choice: tables 3 and 6."""
_COLUMNS = {
    True: ("W indoors", "W outdoors", "J indoors", "J outdoors"),
    False: ("transmission ms indoors", "outdoors", "inference ms indoors", "outdoors "),
}


def table(number: int, data: Sequence[Path], progress: Callable[[str], None]) -> dict[str, Any]:
    """Measure a table, by network and system: the paper's figure and ours.

    Args:
        number: one of :data:`TABLES`.
        data: a folder of frames, such as one of DAVIS; without it a built-in scene.
        progress: is told what is being done.
    """
    if number in (3, 6):
        return {
            model: memory_row(_MEMORY[name], memory_of(model, parse_size(size) or (0, 0), progress))
            for model, (name, size) in _NETWORKS[number].items()
        }
    is_energy = number in (2, 5)
    found = {}
    for model, (name, size) in _NETWORKS[number].items():
        report = _measured(model, size, _LINKS, data, progress)
        for theirs, ours in SYSTEMS.items():
            figures = [report["bandwidth"][link]["systems"][ours] for link in _LINKS]
            mine = _energy(figures) if is_energy else _times(figures)
            published = PUBLISHED[name][theirs][is_energy]
            found[f"{model}, {theirs}"] = {
                column: {"paper": paper, "ours": here}
                for column, paper, here in zip(_COLUMNS[is_energy], published, mine, strict=True)
            }
    return found


def figure(number: int, data: Sequence[Path], progress: Callable[[str], None]) -> dict[str, Any]:
    """Measure scenenet's latencies: over traces of the link (5), or by reuse ratio at 48 Mbit/s (6).

    Args:
        number: one of :data:`FIGURES`.
        data: a folder of frames; without it a built-in scene.
        progress: is told what is being done.
    """
    (model, (_, size)) = next(iter(_DETECTOR.items()))
    if number == 5:
        return _measured(model, size, _LINKS, data, progress)
    report = _measured(model, size, (_MBIT_S,), data, progress)
    systems = report["bandwidth"][_MBIT_S]["systems"]
    return {name: _by_reuse(systems[ours]["reuse_ms"]) for name, ours in SYSTEMS.items()}


def draw(number: int, found: dict[str, Any], path: Path) -> None:
    """Draw a figure as the paper has it."""
    from matplotlib.figure import Figure

    from benchmarks.offload.plot import plot_offload

    path.parent.mkdir(parents=True, exist_ok=True)
    if number == 5:
        plot_offload([found], path)
        return
    picture = Figure(figsize=(6.0, 4.0), layout="constrained")
    axes = picture.subplots()
    for name, points in found.items():
        axes.plot([point["reuse"] for point in points], [point["ms"] for point in points], marker="o", label=name)
    axes.set(xlabel="reuse ratio", ylabel=f"ms at {_MBIT_S} Mbit/s", ylim=(0, None))
    axes.grid(alpha=0.25)
    axes.legend(fontsize="small")
    picture.savefig(path, dpi=110)


def _measured(
    model: str, size: str, links: Sequence[str], data: Sequence[Path], progress: Callable[[str], None]
) -> dict[str, Any]:
    from benchmarks.offload import comparators
    from benchmarks.offload.run import run_offload_benchmark
    from cacheinf_ros.nodes.limited import find_trace

    setting = Setting(model=model, size=size, source=str(data[0]) if data else _SOURCE, frames=_FRAMES, rounds=_ROUNDS)
    systems = {name: comparators.SYSTEMS[name] for name in SYSTEMS.values()}
    chosen = replace(setting, systems=systems, robot=comparators.robot())
    return run_offload_benchmark(chosen, {link: find_trace(link) for link in links}, progress)


def _times(figures: Sequence[Mapping[str, Any]]) -> tuple[float, ...]:
    return (*(each["transmit_ms"] for each in figures), *(each["latency_ms"]["mean"] for each in figures))


def _energy(figures: Sequence[Mapping[str, Any]]) -> tuple[float, ...]:
    joules = [each["energy_j"] for each in figures]
    watts = [each["energy_j"] / each["latency_ms"]["mean"] * 1e3 for each in figures]
    return (*watts, *joules)


def _by_reuse(frames: Sequence[Sequence[float]]) -> list[dict[str, float]]:
    """Mean latencies of the frames whose reuse ratios lie between two bins' ends."""
    points = []
    for low, high in itertools.pairwise(_BINS):
        chosen = [frame for frame in frames if low <= frame[0] < high]
        if chosen:
            reuse, took = (sum(values) / len(chosen) for values in zip(*chosen, strict=True))
            points.append({"reuse": reuse, "ms": took, "frames": len(chosen)})
    return points
