# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Tables and figures of the CacheInf draft, measured with real nodes over shaped links (:mod:`.run`).

Its robots, its network for key points (Kapao) and its point clouds (AGRNav) are not here; for AGRNav only the paper's
numbers are printed. For the torchvision networks of tables 4 and 5, with random weights, the systems are compared on
whatever frames are given; for tables 1 to 3 two networks stand in: scenenet, the detector that is here, and a network
for key points in Kapao's manner, with random weights.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks.offload.equation_8 import memory_of, memory_row
from benchmarks.offload.published import MEMORY_MB, PUBLISHED, Amount, Row
from benchmarks.offload.setting import Setting
from benchmarks.papers.stated import NO_NUMBERS, NOTE
from cacheinf_ros.config import parse_size
from cacheinf_ros.errors import ConfigError

_Networks = Mapping[str, tuple[str, str]]
"""By model: the paper's name of the network, or of the one that it stands in for, and the size of its input."""
SYSTEMS = {
    "Local": "local_dense", "DS": "dnn_surgery", "DS-C": "dnn_surgery_cached", "HP": "hybrid_parallel",
    "Ours": "cacheinf",
}  # fmt: skip
"""Our systems by the paper's names. DS is DSCCS (Liang 2023) in the paper and DADS (Hu 2019) here."""
FOLLOWING = {"DS-C": "dnn_surgery_cached_following", "Ours": "cacheinf_following"}
"""What is measured a second time, with a cache that follows the camera by homographies as the paper's does."""
_DETECTOR = {"scenenet": ("Kapao", "480x640")}
_POSE = str(Path(__file__).parents[2] / "test" / "networks" / "pose.yaml")
_DETECTORS = {**_DETECTOR, _POSE: ("Kapao", "480x640")}
_CLASSIFIERS = {
    "torchvision:regnet_x_16gf": ("RegNet", "224x224"),
    "torchvision:vgg19": ("VGG19", "224x224"),
    "torchvision:convnext_large": ("ConvNeXt", "224x224"),
}
_TABLES: Mapping[int, _Networks] = {
    1: _DETECTORS, 2: _DETECTORS, 3: _DETECTORS, 4: _CLASSIFIERS, 5: _CLASSIFIERS, 6: _CLASSIFIERS
}  # fmt: skip
_FIGURES: Mapping[int, _Networks] = {5: _DETECTOR, 6: _DETECTOR}
_LINKS = ("indoor", "outdoor")
_MBIT_S = "48"
_FRAMES, _ROUNDS = 30, 1
_SOURCE = "scene:handheld"
_BINS = (0.0, 0.2, 0.4, 0.6, 0.8, 0.9, 1.0001)  # of the reuse ratio

_NOT_HERE = {"AGRNav (not here)": "AGRNav"}
"""The network of tables 1 to 3 for which nothing here stands in: only the paper's rows are shown."""
_ELSEWHERE: Mapping[int, Mapping[str, str]] = {1: _NOT_HERE, 2: _NOT_HERE, 3: _NOT_HERE, 4: {}, 5: {}, 6: {}}
_TIMES = "our transmission is the time in which the robot sends; its standard deviation is not recorded"
_NO_NUMBERS = f"{NO_NUMBERS}; ours is the detector that is here, in place of Kapao"


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheInfPages:
    """The draft's pages for ``cacheinf bench paper``, of all networks or of one.

    Attributes:
        network: the paper's or the model's name of the only network to measure; None: all.
    """

    network: str | None = None

    def __post_init__(self) -> None:
        """Check the network's name."""
        if not self.TABLES:
            known = [f"{name} ({_called(model)})" for model, (name, _) in {**_DETECTORS, **_CLASSIFIERS}.items()]
            raise ConfigError(f"network {self.network} is none of {', '.join(known)}; give either name of one")

    @property
    def TABLES(self) -> tuple[int, ...]:
        """The numbers of the tables that have the network."""
        return tuple(number for number, networks in _TABLES.items() if self._chosen(networks))

    @property
    def FIGURES(self) -> tuple[int, ...]:
        """The numbers of the figures that have the network."""
        return tuple(number for number, networks in _FIGURES.items() if self._chosen(networks))

    def table(self, number: int, data: Sequence[Path], progress: Callable[[str], None]) -> dict[str, Any]:
        """Measure a table: the paper's number and ours, by network and system.

        Args:
            number: one of :attr:`TABLES`.
            data: a folder of frames, such as one of DAVIS; without it a built-in scene is used.
            progress: called with what is being done.
        """
        networks, elsewhere = self._chosen(_TABLES[number]), _ELSEWHERE[number] if self.network is None else {}
        if number in (3, 6):
            return _memory(networks, elsewhere, progress)
        cells = energy_cells if number in (2, 5) else time_cells
        found: dict[str, Any] = {}
        energy = ""
        for model, (name, size) in networks.items():
            report = _measured(model, size, _LINKS, data, progress)
            energy = report["energy"]
            for way, systems in (("", SYSTEMS), (", following", FOLLOWING)):
                for theirs, ours in systems.items():
                    figures = [report["bandwidth"][link]["systems"][ours] for link in _LINKS]
                    found[f"{_called(model)}, {theirs}{way}"] = cells(PUBLISHED[name][theirs], figures)
        for title, name in elsewhere.items():
            found |= {f"{title}, {theirs}": cells(row, (None, None)) for theirs, row in PUBLISHED[name].items()}
        return found | {NOTE: f"our energy is {energy}" if cells is energy_cells else _TIMES}

    def figure(self, number: int, data: Sequence[Path], progress: Callable[[str], None]) -> dict[str, Any]:
        """Measure scenenet's latencies: over traces of the link (5), or by reuse ratio at 48 Mbit/s (6).

        Args:
            number: one of :attr:`FIGURES`.
            data: a folder of frames; without it a built-in scene is used.
            progress: called with what is being done.
        """
        (model, (_, size)) = next(iter(_FIGURES[number].items()))
        if number == 5:
            return _measured(model, size, _LINKS, data, progress) | {NOTE: _NO_NUMBERS}
        report = _measured(model, size, (_MBIT_S,), data, progress)
        systems = report["bandwidth"][_MBIT_S]["systems"]
        return {name: _by_reuse(systems[ours]["reuse_ms"]) for name, ours in SYSTEMS.items()} | {NOTE: _NO_NUMBERS}

    def draw(self, number: int, found: dict[str, Any], path: Path) -> None:
        """Draw a figure as the paper has it."""
        from matplotlib.figure import Figure

        from benchmarks.offload.plot import plot_offload

        path.parent.mkdir(parents=True, exist_ok=True)
        if number == 5:
            plot_offload([found], path)
            return
        picture = Figure(figsize=(6.0, 4.0), layout="constrained")
        axes = picture.subplots()
        for name in SYSTEMS:
            points = found[name]
            axes.plot([point["reuse"] for point in points], [point["ms"] for point in points], marker="o", label=name)
        axes.set(xlabel="reuse ratio", ylabel=f"ms at {_MBIT_S} Mbit/s", ylim=(0, None))
        axes.grid(alpha=0.25)
        axes.legend(fontsize="small")
        picture.savefig(path, dpi=110)

    def _chosen(self, networks: _Networks) -> _Networks:
        wanted = self.network
        return {
            model: (name, size)
            for model, (name, size) in networks.items()
            if wanted is None
            or wanted.lower() in (name.lower(), model, _called(model), model.removeprefix("torchvision:"))
        }


def _called(model: str) -> str:
    """Return a model's name for the reader: that of its card, where it has one."""
    return Path(model).stem if model.endswith(".yaml") else model


def _measured(
    model: str, size: str, links: Sequence[str], data: Sequence[Path], progress: Callable[[str], None]
) -> dict[str, Any]:
    from benchmarks.offload import comparators
    from benchmarks.offload.run import run_offload_benchmark
    from cacheinf_ros.nodes.limited import find_trace

    setting = Setting(model=model, size=size, source=str(data[0]) if data else _SOURCE, frames=_FRAMES, rounds=_ROUNDS)
    systems = {name: comparators.SYSTEMS[name] for name in (*SYSTEMS.values(), *FOLLOWING.values())}
    chosen = replace(setting, systems=systems, robot=comparators.robot())
    return run_offload_benchmark(chosen, {link: find_trace(link) for link in links}, progress)


def _memory(networks: _Networks, elsewhere: Mapping[str, str], progress: Callable[[str], None]) -> dict[str, Any]:
    rows = {
        _called(model): memory_row(MEMORY_MB[name], memory_of(model, parse_size(size) or (0, 0), progress))
        for model, (name, size) in networks.items()
    }
    return rows | {title: memory_row(MEMORY_MB[name], {}) for title, name in elsewhere.items()}


def time_cells(theirs: Row, figures: Sequence[Mapping[str, Any] | None]) -> dict[str, Any]:
    """Put the paper's cells of tables 1 and 4 next to ours, and add our error: ``figures`` for each link, or None."""
    found: dict[str, Any] = {}
    for i, (link, ours) in enumerate(zip(_LINKS, figures, strict=True)):
        latency, error = (ours["latency_ms"], ours["output_error"]) if ours else ({}, None)
        found |= {
            f"transmission ms {link}": _cell(theirs.transmission_ms[i], ours["transmit_ms"] if ours else None),
            f"inference ms {link}": _cell(theirs.latency_ms[i], latency.get("mean"), latency.get("std")),
            f"transmission % {link}": {
                "paper": theirs.share[i], "ours": 100 * ours["transmit_share"] if ours else None
            },
            f"output error {link}": error["mean"] if error else None,
        }  # fmt: skip
    return found


def energy_cells(theirs: Row, figures: Sequence[Mapping[str, Any] | None]) -> dict[str, Any]:
    """Put the paper's cells of tables 2 and 5 next to ours (see :func:`time_cells`), and add the kind of our energy."""
    found: dict[str, Any] = {}
    for i, (link, ours) in enumerate(zip(_LINKS, figures, strict=True)):
        joules = ours["energy_j"] if ours else None
        watts = joules / ours["latency_ms"]["mean"] * 1e3 if ours and joules is not None else None
        found |= {f"W {link}": _cell(theirs.watts[i], watts), f"J {link}": _cell(theirs.joules[i], joules)}
    kinds = sorted({ours["energy_kind"] for ours in figures if ours})
    return found | {"ours are": ", ".join(kinds) or None}


def _cell(theirs: Amount, ours: float | None, deviation: float | None = None) -> dict[str, Any]:
    """Put a number of the paper next to ours, each with its standard deviation where it is known."""
    paper = {"paper": None} if theirs is None else {"paper": theirs[0], "paper_std": theirs[1]}
    return {**paper, "ours": ours} | ({} if deviation is None else {"ours_std": deviation})


def _by_reuse(frames: Sequence[Sequence[float]]) -> list[dict[str, float]]:
    """Return the mean reuse ratio and latency of the frames in each bin of reuse ratios."""
    points = []
    for low, high in itertools.pairwise(_BINS):
        chosen = [frame for frame in frames if low <= frame[0] < high]
        if chosen:
            reuse, took = (sum(values) / len(chosen) for values in zip(*chosen, strict=True))
            points.append({"reuse": reuse, "ms": took, "frames": len(chosen)})
    return points
