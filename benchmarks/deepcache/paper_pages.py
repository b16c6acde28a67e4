# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Measures DeepCache's tables and figures, by their numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar

from benchmarks.deepcache import layer_rules, layers, runs
from benchmarks.deepcache.beside_paper import with_paper
from benchmarks.deepcache.clips import Clip, clips_in
from benchmarks.deepcache.inner_matching import inner_matching
from benchmarks.deepcache.networks import NETWORKS, OTHERS, load_network
from benchmarks.deepcache.plot import plot_rows, plot_stages
from benchmarks.deepcache.published import MATCHING
from benchmarks.matchers import COMPARATORS
from benchmarks.matching.matching_time import INSTALLED, run_matcher_benchmark
from cacheinf_ros.energy.meters import NoMeter, find_meter
from cacheinf_ros.errors import ConfigError, SourceError
from cacheinf_ros.graph import Model

Rows = list[dict[str, Any]]
_CLIPS_PER_CLASS = 1000  # all of them


@dataclass(frozen=True, slots=True, kw_only=True)
class _Setting:
    """The settings of a measurement.

    Attributes:
        clips: several for the figures that compare clips; others use the first.
        network: one of :data:`NETWORKS`; None: the one that the figure has, or all of them.
        frames: number of frames of each clip.
        classifier: the user's own model, to measure accuracy.
    """

    clips: Sequence[Clip]
    network: str | None = None
    frames: int = 30
    threads: int = 1
    classifier: Model | None = None

    def networks(self, *by_default: str) -> list[str]:
        """Return the names of the networks to measure."""
        return [self.network] if self.network else list(by_default or NETWORKS)


def _matching_algorithms(setting: _Setting) -> Rows:
    """Measure table 4."""
    matchers = {name: make for name, make in {**INSTALLED, **COMPARATORS}.items() if name in MATCHING}
    report = run_matcher_benchmark(setting.clips[0].images(setting.frames), sizes=[(227, 227)], matchers=matchers)
    found = report["sizes"]["227x227"]
    return [
        {
            "algorithm": name,
            "paper ms": ms,
            "paper ± ms": deviation,
            "ours ms": round(found[name]["latency_ms"]["mean"], 2),
            "ours ± ms": round(found[name]["latency_ms"]["std"], 2),
            "paper %": ratio,
            "ours %": round(100 * found[name]["match_ratio"]["mean"], 1),
        }
        for name, (ms, deviation, ratio) in MATCHING.items()
    ]


def _by_layer(network: str, engines: Sequence[str]) -> Callable[[_Setting], Rows]:
    def rows(setting: _Setting) -> Rows:
        name, clip = setting.network or network, setting.clips[0]
        return layers.time_by_layer(name, clip, frames=setting.frames, threads=setting.threads, engines=engines)

    return rows


def _inner(setting: _Setting) -> Rows:
    return [
        {"network": name, **row}
        for name in setting.networks("alexnet", "googlenet", "resnet50")
        for row in inner_matching(name, setting.clips[0], frames=setting.frames)
    ]


def _compared(setting: _Setting, clips: Sequence[Clip]) -> Rows:
    rows = []
    for name in setting.networks():
        model = load_network(name)
        for clip in clips:
            found = runs.compared(model, clip, frames=setting.frames, threads=setting.threads)
            rows.append({"network": name, **found})
    return rows


def _mean_over_clips(setting: _Setting) -> Rows:
    """Measure figure 10."""
    found = _compared(setting, setting.clips)
    rows = []
    for name in setting.networks():
        of_one = [row for row in found if row["network"] == name]
        ms = {key: sum(row[key] for row in of_one) / len(of_one) for key in of_one[0] if key.endswith("_ms")}
        saved = {f"{e} saved": round(1 - ms[f"{e}_ms"] / ms["no_cache_ms"], 3) for e in ("deepmon", "deepcache")}
        rows.append({"network": name, **{key: round(value, 2) for key, value in ms.items()}, **saved})
    return rows


def _swept(parameter: str) -> Callable[[_Setting], Rows]:
    def rows(setting: _Setting) -> Rows:
        model = load_network(setting.network or "googlenet")
        return runs.swept(model, setting.clips[0], parameter, frames=setting.frames, threads=setting.threads)

    return rows


def _energy(setting: _Setting) -> Rows:
    meter = find_meter()
    if isinstance(meter, NoMeter):
        raise SourceError(f"energy is measured, not modelled, and there is no meter: {meter.reason}")
    return [
        {"network": name, "meter": meter.name, **row}
        for name in setting.networks()
        for row in runs.energy(
            load_network(name), setting.clips[0], meter, frames=setting.frames, threads=setting.threads
        )
    ]


def _accuracy(setting: _Setting) -> Rows:
    if setting.classifier is None:
        raise SourceError("accuracy needs a model that knows the clips' classes (--model) and labelled clips (--data)")
    return runs.accuracy(setting.classifier, setting.clips, frames=setting.frames, threads=setting.threads)


_TABLES: Mapping[int, Callable[[_Setting], Rows]] = MappingProxyType(
    {
        1: lambda s: layers.time_by_type(s.clips[0], frames=s.frames, threads=s.threads),
        2: lambda _: layer_rules.rules(),
        3: lambda _: layers.convolutions(),
        4: _matching_algorithms,
    }
)
_FIGURES: Mapping[int, Callable[[_Setting], Rows]] = MappingProxyType(
    {
        4: _by_layer("alexnet", ("no_cache",)),
        8: lambda _: layer_rules.propagated(),
        9: _inner,
        10: _mean_over_clips,
        11: lambda s: _compared(s, s.clips),
        12: _by_layer("googlenet", layers.ENGINES),
        13: _accuracy,
        14: lambda s: _compared(s, s.clips[:1]),
        15: _energy,
        16: _swept("threshold"),
        17: _swept("block_size"),
        18: lambda s: layers.cache_memory(s.networks(*NETWORKS, *OTHERS)),
    }
)
"""The functions that measure each figure. Figures 1 to 3 and 5 to 7 are drawings and photographs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeepCachePages:
    """The paper's pages for ``cacheinf bench paper``, with the networks, frames and threads that the user chose.

    Attributes:
        network: one of :data:`NETWORKS`; None: the one that the figure has, or all of them.
        frames: number of frames of each clip.
        classifier: the user's own model, to measure accuracy.
    """

    network: str | None = None
    frames: int = 30
    threads: int = 1
    classifier: Model | None = None
    TABLES: ClassVar[tuple[int, ...]] = tuple(_TABLES)
    FIGURES: ClassVar[tuple[int, ...]] = tuple(_FIGURES)

    def __post_init__(self) -> None:
        """Check the network's name."""
        if self.network not in (None, *NETWORKS):
            raise ConfigError(f"network {self.network} is none of {', '.join(NETWORKS)}")

    def table(self, number: int, data: Sequence[Path], progress: Callable[[str], None]) -> dict[str, Any]:
        """Measure a table of :attr:`TABLES`; ``data`` are folders of clips, without which built-in scenes are used."""
        progress(f"table {number}")
        return {"rows": _TABLES[number](self._setting(data))}

    def figure(self, number: int, data: Sequence[Path], progress: Callable[[str], None]) -> dict[str, Any]:
        """Measure a figure of :attr:`FIGURES`; ``data`` are folders of clips, without which built-in scenes are used.

        Raises:
            SourceError: the figure needs the user's model and clips, or an energy meter.
        """
        progress(f"figure {number}")
        return with_paper(number, _FIGURES[number](self._setting(data)), self.network)

    def draw(self, number: int, found: dict[str, Any], path: Path) -> None:
        """Draw what was measured, and the rectangles of figure 8."""
        if number == 8:
            plot_stages(layer_rules.example(), path)
        else:
            plot_rows(found["rows"], f"figure {number}", path)

    def swept(self, parameter: str, data: Sequence[Path], progress: Callable[[str], None]) -> Rows:
        """Vary a parameter of :data:`runs.SWEEPS`: figures 16 and 17, and what section 7.5 names but does not vary.

        Raises:
            ConfigError: there is no such sweep.
        """
        if parameter not in runs.SWEEPS:
            raise ConfigError(f"sweep {parameter} is none of {', '.join(runs.SWEEPS)}")
        progress(f"sweep of {parameter}")
        return _swept(parameter)(self._setting(data))

    def _setting(self, data: Sequence[Path]) -> _Setting:
        per_class = _CLIPS_PER_CLASS if self.classifier else 1
        clips = [clip for folder in data or (None,) for clip in clips_in(folder, per_class=per_class)]
        return _Setting(
            clips=clips, network=self.network, frames=self.frames, threads=self.threads, classifier=self.classifier
        )
