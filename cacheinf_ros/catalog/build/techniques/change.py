# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""What is done to a network, as values: enough to do it again to the original without running anybody's code."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Annotated

from pydantic import ConfigDict, Field

from cacheinf_ros.errors import CatalogError

BITS = (32, 16, 8)
"""Widths that a stored weight may have."""


class Inapplicable(CatalogError):
    """A technique does nothing to this network; the message says why."""


class Technique(Enum):
    """A way to change an architecture; the comment says what its strength is."""

    FACTORISE = "factorise"
    """Layers as products of two smaller ones; strength: their rank over the number of outputs."""
    FEWER_KERNELS = "fewer-kernels"
    """Convolutions lose output channels, and their consumers the inputs; strength: share that is kept."""
    LARGER_STRIDE = "larger-stride"
    """The first convolution takes larger steps; strength: factor of its stride."""
    SMALLER_DENSE = "smaller-dense"
    """Dense layers lose outputs, and their consumers the inputs; strength: share that is kept."""
    FEWER_LAYERS = "fewer-layers"
    """Layers that keep the shape are left out; strength: how many."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One technique at one strength.

    Attributes:
        strength: see :class:`Technique`.
        layers: names of the modules that are left out; of the other techniques empty: wherever they apply.
    """

    __pydantic_config__ = ConfigDict(extra="forbid")  # where it is read from a file

    technique: Technique
    strength: Annotated[float, Field(gt=0, le=1000)]
    layers: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Such as "factorise-0.25"."""
        return f"{self.technique.value}-{self.strength:g}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """All that makes a variant of the original, its weights aside.

    Attributes:
        changes: one after the other.
        bits: of a stored weight: 32, 16 or 8.
        int8: whether it is computed in int8, too.
    """

    changes: tuple[Change, ...] = ()
    bits: int = 32
    int8: bool = False

    def __post_init__(self) -> None:
        """Refuse what no variant can be: whatever is computed in int8 has weights of 8 bits."""
        if self.int8 and self.bits != 8:
            raise ValueError(f"int8 of weights with {self.bits} bits")

    @property
    def name(self) -> str:
        """Such as "factorise-0.25-8bit", or "factorise-0.25-int8"; of the original "original"."""
        words = [change.name for change in self.changes]
        width = "int8" if self.int8 else f"{self.bits}bit"
        return "-".join(words + [width] * (self.bits != 32)) or "original"

    @property
    def technique(self) -> str:
        """Describe it for people, as in "factorise 0.25, 8 bits"; the original is "", as :class:`Variant` wants it."""
        words = [f"{change.technique.value} {change.strength:g}" for change in self.changes]
        width = "computed in int8" if self.int8 else f"{self.bits} bits"
        return ", ".join(words + [width] * (self.bits != 32))
