# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Puts what was measured for a figure next to the numbers that MCDNN's text states for it, in the same quantities."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from benchmarks.catalog.published import FIGURES, NOTES
from benchmarks.papers.stated import NOTE, PAPER, Ours, beside, extremes

_GENERIC = "generic"


def with_paper(number: int, found: dict[str, Any]) -> dict[str, Any]:
    """Add what the paper's text states about a figure to what was found, for the report."""
    if number in FIGURES:
        found = found | {PAPER: beside(FIGURES[number], _OURS[number](found))}
    return found | {NOTE: NOTES[number]}


def _figure_4(found: Mapping[str, Any]) -> dict[str, Ours]:
    times = found["times_less"]
    return {
        "times_less": times,
        "all": extremes(list(times.values())),
        "variants": extremes([float(len(points)) for points in found["curves"].values()]),
    }


def _figure_5(found: Mapping[str, Any]) -> dict[str, Ours]:
    return {name: found[name] for name in ("load_over_execute", "times_less")}


def _figure_6(found: Mapping[str, Any]) -> dict[str, Ours]:
    return {"times_faster_cloud": found["times_faster_cloud"]}


def _figure_10(found: Mapping[str, Any]) -> dict[str, Ours]:
    special = [each for name, each in found["specialised"].items() if name != _GENERIC]
    generic, shared = found["specialised"].get(_GENERIC), found["shared"]
    ours: dict[str, Ours] = {
        "specialised_mj": extremes([1e3 * each["execute_j"] for each in special]),
        "shared_mj": {name: 1e3 * each["execute_j"] for name, each in shared.items()},
        "shared_ms": {name: each["ms"] for name, each in shared.items()},
        "shared_times_less": {n: found["one_model_ms"] / each["ms"] for n, each in shared.items() if each["ms"]},
    }
    if special:
        least = min(special, key=lambda each: float(each["execute_j"]))
        ours["specialised_accuracy"] = (100 * least["least"], 100 * least["most"])
    if generic is not None:
        ours |= {"generic_mj": 1e3 * generic["execute_j"], "generic_accuracy": 100 * generic["accuracy"]}
    return ours


_OURS: Mapping[int, Callable[[Mapping[str, Any]], dict[str, Ours]]] = MappingProxyType(
    {4: _figure_4, 5: _figure_5, 6: _figure_6, 10: _figure_10}
)
