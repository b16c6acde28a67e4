# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Changes to a network, as values: enough to repeat them on the original without running anybody's code."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Annotated

from pydantic import ConfigDict, Field

from cacheinf_ros.errors import CatalogError

BITS = (32, 16, 8)
"""The widths that a stored weight may have."""


class Inapplicable(CatalogError):
    """Raised where a technique has no effect on a network; the message says why."""


class Technique(Enum):
    """A way to change an architecture; the text below each says what its strength means."""

    FACTORISE = "factorise"
    """Layers become products of two smaller ones; strength: their rank over the number of outputs."""
    FEWER_KERNELS = "fewer-kernels"
    """Convolutions lose output channels, and their consumers those inputs; strength: share that is kept."""
    LARGER_STRIDE = "larger-stride"
    """The first convolution gets a larger stride; strength: the factor."""
    SMALLER_DENSE = "smaller-dense"
    """Dense layers lose outputs, and their consumers those inputs; strength: share that is kept."""
    FEWER_LAYERS = "fewer-layers"
    """Layers that keep the shape are left out; strength: how many."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One technique at one strength.

    Attributes:
        strength: see :class:`Technique`.
        layers: names of the modules to leave out; empty for other techniques, which apply wherever they can.
    """

    __pydantic_config__ = ConfigDict(extra="forbid")  # for changes read from a file

    technique: Technique
    strength: Annotated[float, Field(gt=0, le=1000)]
    layers: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The name in variants' names, such as "factorise-0.25"."""
        return f"{self.technique.value}-{self.strength:g}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """All that makes a variant of the original, except its weights.

    Attributes:
        changes: the changes, applied one after the other.
        bits: width of a stored weight: 32, 16 or 8.
        int8: whether the variant is also computed in int8.
    """

    changes: tuple[Change, ...] = ()
    bits: int = 32
    int8: bool = False

    def __post_init__(self) -> None:
        """Raise ValueError for int8 without 8-bit weights: what is computed in int8 has 8-bit weights."""
        if self.int8 and self.bits != 8:
            raise ValueError(f"int8 of weights with {self.bits} bits")

    @property
    def name(self) -> str:
        """The variant's name, such as "factorise-0.25-8bit" or "factorise-0.25-int8"; "original" for the original."""
        words = [change.name for change in self.changes]
        width = "int8" if self.int8 else f"{self.bits}bit"
        return "-".join(words + [width] * (self.bits != 32)) or "original"

    @property
    def technique(self) -> str:
        """The description for people, as in "factorise 0.25, 8 bits"; "" for the original, as in :class:`Variant`."""
        words = [f"{change.technique.value} {change.strength:g}" for change in self.changes]
        width = "computed in int8" if self.int8 else f"{self.bits} bits"
        return ", ".join(words + [width] * (self.bits != 32))
