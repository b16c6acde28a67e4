# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Puts what was measured for a figure next to the numbers that DeepCache's text states for it, in their quantities."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from benchmarks.deepcache.engines import DEEPCACHE, DEEPMON, NO_CACHE
from benchmarks.deepcache.published import FIGURES, NOTES
from benchmarks.papers.stated import NOTE, PAPER, Ours, beside, extremes

Rows = Sequence[Mapping[str, Any]]
_CACHES = (DEEPCACHE, DEEPMON)
_OF_CONVOLUTIONS = 12  # the figure that shows convolutions only
_IMAGES = 10  # the number of images on which the paper states the joules saved for REC_3
_THIRD = 2  # index of the third convolution
_DEFAULT, _SMALLEST = "20", "2"  # the paper's threshold, and the smallest block here


def with_paper(number: int, rows: Rows, network: str | None = None) -> dict[str, Any]:
    """Put what the paper's text states about a figure next to its rows, for the report.

    ``network`` is the only one that was measured, where the user chose one; None stands for the figure's networks.
    """
    shown = [row for row in rows if row["type"] == "conv"] if number == _OF_CONVOLUTIONS else rows
    found: dict[str, Any] = {"rows": list(shown)}
    if number in FIGURES:
        note = NOTES[number] if network is None else f"{NOTES[number]}; ours are of {network} alone"
        found |= {PAPER: beside(FIGURES[number], _OURS[number](rows)), NOTE: note}
    return found


def _figure_4(rows: Rows) -> dict[str, Ours]:
    fully_connected = 100 * _total_us(row for row in rows if row["type"] == "fc") / _total_us(rows)
    return {"fc": fully_connected, "earlier": 100 - fully_connected}


def _figure_9(rows: Rows) -> dict[str, Ours]:
    by_network: dict[str, list[float]] = {}
    for row in rows:
        by_network.setdefault(row["network"], []).append(row["times"])
    return {network: max(times) for network, times in by_network.items()}


def _figure_10(rows: Rows) -> dict[str, Ours]:
    by_network = {f"{row['network']} {cache}": 100 * row[f"{cache} saved"] for row in rows for cache in _CACHES}
    return by_network | {cache: _mean(100 * row[f"{cache} saved"] for row in rows) for cache in _CACHES}


def _figure_11(rows: Rows) -> dict[str, Ours]:
    saved = {f"{row['network']} {row['clip']}": 100 * row[f"{DEEPCACHE}_saved"] for row in rows}
    return saved | {"most": max(saved.values())}


def _figure_12(rows: Rows) -> dict[str, Ours]:
    third = [row for row in rows if row["type"] == "conv"][_THIRD]
    return {
        "layer_ms": third[f"{NO_CACHE}_us"] / 1e3,
        "share": 100 * third[f"{NO_CACHE}_us"] / _total_us(rows),
        "saved_ms": (third[f"{NO_CACHE}_us"] - third[f"{DEEPCACHE}_us"]) / 1e3,
    }


def _figure_13(rows: Rows) -> dict[str, Ours]:
    engines = {row["engine"]: row for row in rows}
    found: dict[str, Ours] = {}
    for top in ("top1", "top3"):
        dense = 100 * engines[NO_CACHE][top]
        found |= {top: dense, f"{top} lost": max(dense - 100 * engines[cache][top] for cache in _CACHES)}
    return found


def _figure_14(rows: Rows) -> dict[str, Ours]:
    return {f"{row['network']} {cache}": row[f"{cache}_median_mse"] for row in rows for cache in _CACHES}


def _figure_15(rows: Rows) -> dict[str, Ours]:
    joules: dict[str, dict[str, float]] = {}
    for row in rows:
        joules.setdefault(row["network"], {})[row["engine"]] = row["joules_per_frame"]
    saved = {cache: [100 * (1 - each[cache] / each[NO_CACHE]) for each in joules.values()] for cache in _CACHES}
    spared = {f"{name} joules": _IMAGES * (each[NO_CACHE] - each[DEEPCACHE]) for name, each in joules.items()}
    return {**{cache: _mean(each) for cache, each in saved.items()}, "most": max(saved[DEEPCACHE]), **spared}


def _figure_16(rows: Rows) -> dict[str, Ours]:
    default = next(row for row in rows if row["threshold"] == _DEFAULT)
    return {"no_cache_ms": default["no_cache_ms"], "ms": default["ms"], "saved": 100 * default["saved"]}


def _figure_17(rows: Rows) -> dict[str, Ours]:
    return {"saved": 100 * next(row for row in rows if row["block_size"] == _SMALLEST)["saved"]}


def _figure_18(rows: Rows) -> dict[str, Ours]:
    return {"range": extremes([row["convolutions"] for row in rows])}


_OURS: Mapping[int, Callable[[Rows], dict[str, Ours]]] = MappingProxyType(
    {
        4: _figure_4, 9: _figure_9, 10: _figure_10, 11: _figure_11, 12: _figure_12, 13: _figure_13, 14: _figure_14,
        15: _figure_15, 16: _figure_16, 17: _figure_17, 18: _figure_18,
    }
)  # fmt: skip


def _total_us(rows: Iterable[Mapping[str, Any]]) -> float:
    return float(sum(row[f"{NO_CACHE}_us"] for row in rows))


def _mean(values: Iterable[float]) -> float:
    return float(np.mean(list(values)))
