"""The steps that a compiled graph consists of: growth of active sets, and operators on their pixels."""

from __future__ import annotations

from dataclasses import dataclass

from cacheinf_ros.engine.buffers import MapBuffer
from cacheinf_ros.engine.execution.active import ActiveSet
from cacheinf_ros.engine.execution.growth import Reach
from cacheinf_ros.engine.truncation import Truncation
from cacheinf_ros.graph.ir import Conv, Global, Operator
from cacheinf_ros.graph.window import Window


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Grow:
    """Fills ``target`` with the outputs that depend on a pixel of ``source``."""

    source: ActiveSet
    target: ActiveSet
    through: Window | Reach


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Unite:
    """Fills ``target`` with the pixels of either."""

    first: ActiveSet
    second: ActiveSet
    target: ActiveSet


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Flood:
    """Fills ``target`` completely when ``source`` has any pixel: everything depends on everything."""

    source: ActiveSet
    target: ActiveSet


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Compute:
    """Computes the active pixels of a map.

    Attributes:
        out: where they are written.
        active: the pixels.
        changed: filled with those of them that are passed on; the same object as ``active`` without truncation.
    """

    operator: Operator
    sources: tuple[MapBuffer, ...]
    out: MapBuffer
    active: ActiveSet
    changed: ActiveSet
    truncation: Truncation | None

    @property
    def flops_per_pixel(self) -> int:
        """Of convolutions; the others are counted as free."""
        return self.operator.flops_per_pixel if isinstance(self.operator, Conv) else 0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Call:
    """Computes a tensor from completed ones by torch, if any of them changed.

    Attributes:
        inputs: the changed sets of its inputs.
        out: the map that local operators read; None where there is none.
        changed: filled with the pixels that changed; one flag where the output is no map.
    """

    operator: Global
    inputs: tuple[ActiveSet, ...]
    out: MapBuffer | None
    changed: ActiveSet


Step = Grow | Unite | Flood | Compute | Call
