# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The sections of ``cacheinf bench catalog``: many models under a budget, as in MCDNN's section 6.2.

Every section is a function in :data:`SECTIONS`: it takes a :class:`Setting` and a callback that reports progress.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from benchmarks.catalog.heads import run_heads_benchmark
from benchmarks.catalog.random_days import run_random_days
from benchmarks.catalog.setting import Progress, Setting
from benchmarks.catalog.simulated_days import run_figure_11, run_figure_12
from benchmarks.catalog.specialise import run_specialisation_benchmark
from cacheinf_ros.engine import Mode
from cacheinf_ros.errors import CatalogError


def run_specialisation(setting: Setting, progress: Progress) -> dict[str, Any]:
    """Measure a specialist for the dominant classes, in dense and in exact mode; see :mod:`.specialise`."""
    found = {}
    for mode in (Mode.DENSE, Mode.EXACT):
        progress(f"specialisation, {mode.value}")
        found[mode.value] = run_specialisation_benchmark(mode=mode)
    return found


def run_heads(setting: Setting, progress: Progress) -> dict[str, Any]:
    """Measure three attributes on one trunk; see :mod:`.heads`."""
    progress("heads on one trunk")
    return run_heads_benchmark()


def run_real_day(setting: Setting, progress: Progress) -> dict[str, Any]:
    """Run figure 13 with real nodes: a day compressed to two minutes for each policy; see :mod:`.day`."""
    from benchmarks.catalog import day  # needs ROS, which the other sections do without

    return day.run_day(day.Day(folders=setting.folders), progress)


SECTIONS: Mapping[str, Callable[[Setting, Progress], dict[str, Any]]] = {
    "figure11": run_figure_11,
    "figure12": run_figure_12,
    "oracle": run_random_days,
    "specialisation": run_specialisation,
    "heads": run_heads,
    "day": run_real_day,
}


def run_catalog_benchmark(
    setting: Setting, sections: Iterable[str] = SECTIONS, progress: Progress = lambda text: None
) -> dict[str, Any]:
    """Run the chosen sections, and return the report by section.

    Raises:
        CatalogError: there is no such section.
    """
    chosen = tuple(sections)
    for name in chosen:
        if name not in SECTIONS:
            raise CatalogError(f"section {name!r}: known are {', '.join(SECTIONS)}")
    return {name: SECTIONS[name](setting, progress) for name in chosen}
