# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The memory planner's paper for ``cacheinf bench paper``: nothing but graphs and arithmetic."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.memory import paper_tables
from benchmarks.memory.paper_tables import FIGURES, TABLES

__all__ = ["FIGURES", "TABLES", "draw", "figure", "table"]


def table(number: int, data: Sequence[Path], progress: Callable[[str], None]) -> dict[str, Any]:
    """See :func:`.paper_tables.table`."""
    return paper_tables.table(number)


def figure(number: int, data: Sequence[Path], progress: Callable[[str], None]) -> dict[str, Any]:
    """See :func:`.paper_tables.figure`."""
    return paper_tables.figure(number)


def draw(number: int, found: dict[str, Any], path: Path) -> None:
    """Nothing: they are worked out in words and numbers."""
