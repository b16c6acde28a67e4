# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The memory planner's paper for ``cacheinf bench paper``, which needs only graphs and arithmetic."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.memory import paper_tables
from benchmarks.memory.paper_tables import EXAMPLE, FIGURES, TABLES
from benchmarks.papers.stated import NO_NUMBERS, NOTE, PAPER, Ours, Stated, beside

__all__ = ["FIGURES", "TABLES", "draw", "figure", "table"]
_RECORDS, _PROFILES = 1, 2  # figures
_THIRD = 3  # the operator whose breadth the text works out
_STATED: Mapping[str, Stated] = {
    "breadth": Stated(quantity="operator 3: breadth", value=80, cited="section 3"),
    "maximum": Stated(quantity="third positional maximum", value=16, cited="section 3"),
}


def table(number: int, data: Sequence[Path], progress: Callable[[str], None]) -> dict[str, Any]:
    """Compute a table, see :func:`.paper_tables.table`."""
    return paper_tables.table(number)


def figure(number: int, data: Sequence[Path], progress: Callable[[str], None]) -> dict[str, Any]:
    """Compute a figure, see :func:`.paper_tables.figure`, with the numbers that the paper's text states for it."""
    found = paper_tables.figure(number)
    if number != _PROFILES:
        return found | {NOTE: NO_NUMBERS}
    third = next(each["breadth"] for each in found["profiles"] if each["operator"] == _THIRD)
    ours: dict[str, Ours] = {"breadth": third, "maximum": found["positional_maxima"][2]}
    return found | {PAPER: beside(_STATED, ours), NOTE: f"{NO_NUMBERS} but these"}


def draw(number: int, found: dict[str, Any], path: Path) -> None:
    """Draw the example's tensors: their lifetimes (1), what is alive at each operator (2), or their places (3 to 6)."""
    from benchmarks.memory.plot import plot_lives, plot_profiles

    if number == _PROFILES:
        plot_profiles(EXAMPLE, f"figure {number}: operator profiles", path)
    elif number == _RECORDS:
        apart = [sum(record.size for record in EXAMPLE[:i]) for i in range(len(EXAMPLE))]
        plot_lives(EXAMPLE, apart, f"figure {number}: usage records, each with memory of its own", "size", path)
    else:
        placement = paper_tables.placed(number)
        kind = "one arena" if placement.objects is None else "shared objects, one behind another"
        plot_lives(EXAMPLE, placement.offsets, f"figure {number}: {kind}", "offset", path)
