# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The numbers that a paper's text states about a figure, put next to the numbers that come out here.

A figure's report has them under :data:`PAPER`; under :data:`NOTE` it says what these numbers do not show.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

PAPER, NOTE = "paper", "note"
NO_NUMBERS = "the paper has a picture of this, without numbers in its text"
Ours: TypeAlias = float | tuple[float, float] | Mapping[str, float] | None
"""A number, (least, most) of several, or several by name; None: nothing here can be compared."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stated:
    """A number that a paper states.

    Attributes:
        quantity: what it measures, with its unit.
        value: the number; for a range (least, most).
        cited: the section, figure or table that states it.
    """

    quantity: str
    value: float | tuple[float, float]
    cited: str


def beside(stated: Mapping[str, Stated], ours: Mapping[str, Ours]) -> list[dict[str, Any]]:
    """List each number of a paper next to ours with the same key, where there is one."""
    return [
        {"quantity": each.quantity, "paper": _listed(each.value), "ours": _listed(ours.get(key)), "cited": each.cited}
        for key, each in stated.items()
    ]


def extremes(values: Sequence[float]) -> tuple[float, float] | None:
    """Return (least, most); None where there are no values."""
    return (min(values), max(values)) if values else None


def _listed(value: Ours) -> Any:
    """Convert a value to what JSON can hold."""
    if isinstance(value, Mapping):
        return dict(value) or None
    return list(value) if isinstance(value, tuple) else value
