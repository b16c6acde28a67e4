# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""DeepCache's tables and figures by their numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from benchmarks.deepcache import layer_rules, layers, runs
from benchmarks.deepcache.clips import Clip
from benchmarks.deepcache.inner_matching import inner_matching
from benchmarks.deepcache.networks import NETWORKS, load_network
from benchmarks.matchers import COMPARATORS
from benchmarks.matching.matching_time import INSTALLED, run_matcher_benchmark
from cacheinf_ros.energy.meters import NoMeter, find_meter
from cacheinf_ros.errors import SourceError
from cacheinf_ros.graph import Model

Rows = list[dict[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What is measured, and on what.

    Attributes:
        clips: several for the figures that compare them; else the first counts.
        network: of :data:`NETWORKS`; None: the one that the figure has, or all of them.
        frames: of each clip.
        classifier: the user's own model, for accuracy.
    """

    clips: Sequence[Clip]
    network: str | None = None
    frames: int = 30
    threads: int = 1
    classifier: Model | None = None

    def networks(self, *by_default: str) -> list[str]:
        """Their names."""
        return [self.network] if self.network else list(by_default or NETWORKS)


def _matching_algorithms(setting: Setting) -> Rows:
    """Table 4."""
    published = {
        "deepmon": (4.7, 46.1),
        "exhaustive": (33.3, 71.5),
        "three_step": (24.7, 70.8),
        "diamond": (19.5, 71.2),
    }
    published["diamond_optimised"] = (9.7, 69.5)
    matchers = {name: make for name, make in {**INSTALLED, **COMPARATORS}.items() if name in published}
    report = run_matcher_benchmark(setting.clips[0].images(setting.frames), sizes=[(227, 227)], matchers=matchers)
    found = report["sizes"]["227x227"]
    return [
        {
            "algorithm": name,
            "paper ms": ms,
            "ours ms": round(found[name]["latency_ms"]["mean"], 2),
            "paper %": ratio,
            "ours %": round(100 * found[name]["match_ratio"]["mean"], 1),
        }
        for name, (ms, ratio) in published.items()
    ]


def _by_layer(network: str, engines: Sequence[str]) -> Callable[[Setting], Rows]:
    def rows(setting: Setting) -> Rows:
        name, clip = setting.network or network, setting.clips[0]
        return layers.time_by_layer(name, clip, frames=setting.frames, threads=setting.threads, engines=engines)

    return rows


def _inner(setting: Setting) -> Rows:
    return [
        {"network": name, **row}
        for name in setting.networks("alexnet", "googlenet", "resnet50")
        for row in inner_matching(name, setting.clips[0], frames=setting.frames)
    ]


def _compared(setting: Setting, clips: Sequence[Clip]) -> Rows:
    rows = []
    for name in setting.networks():
        model = load_network(name)
        for clip in clips:
            found = runs.compared(model, clip, frames=setting.frames, threads=setting.threads)
            rows.append({"network": name, **found})
    return rows


def _mean_over_clips(setting: Setting) -> Rows:
    """Figure 10."""
    found = _compared(setting, setting.clips)
    rows = []
    for name in setting.networks():
        of_one = [row for row in found if row["network"] == name]
        ms = {key: sum(row[key] for row in of_one) / len(of_one) for key in of_one[0] if key.endswith("_ms")}
        saved = {f"{e} saved": round(1 - ms[f"{e}_ms"] / ms["no_cache_ms"], 3) for e in ("deepmon", "deepcache")}
        rows.append({"network": name, **{key: round(value, 2) for key, value in ms.items()}, **saved})
    return rows


def _swept(parameter: str) -> Callable[[Setting], Rows]:
    def rows(setting: Setting) -> Rows:
        model = load_network(setting.network or "googlenet")
        return runs.swept(model, setting.clips[0], parameter, frames=setting.frames, threads=setting.threads)

    return rows


def _energy(setting: Setting) -> Rows:
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


def _accuracy(setting: Setting) -> Rows:
    if setting.classifier is None:
        raise SourceError("accuracy needs a model that knows the clips' classes (--model) and labelled clips (--data)")
    return runs.accuracy(setting.classifier, setting.clips, frames=setting.frames, threads=setting.threads)


TABLES: Mapping[int, Callable[[Setting], Rows]] = MappingProxyType(
    {
        1: lambda s: layers.time_by_type(s.clips[0], frames=s.frames, threads=s.threads),
        2: lambda _: layer_rules.rules(),
        3: lambda _: layers.convolutions(),
        4: _matching_algorithms,
    }
)
FIGURES: Mapping[int, Callable[[Setting], Rows]] = MappingProxyType(
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
        18: lambda s: layers.cache_memory(s.networks()),
    }
)
"""Figures 1 to 3, 5 to 7 are drawings and photographs."""
SWEEPS: Mapping[str, Callable[[Setting], Rows]] = MappingProxyType({name: _swept(name) for name in runs.SWEEPS})
NEEDS_MORE = frozenset({13, 15})
"""Figures that only come where the user brings a model and clips, or the machine has a meter."""
