# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Numbers that are counted frame by frame, and added up over all of them."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Self


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """The base of dataclasses that hold only numbers, or other counts: adding two of them adds up each field."""

    def __add__(self, other: Self) -> Self:
        return type(self)(**{each.name: getattr(self, each.name) + getattr(other, each.name) for each in fields(self)})
