# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The steps that a compiled graph consists of: growth of active sets, and operators on their pixels."""

from __future__ import annotations

from dataclasses import dataclass

from cacheinf_ros.engine.execution.access_pattern import Through
from cacheinf_ros.engine.execution.active import ActiveSet
from cacheinf_ros.engine.partition.replicas import TensorReplica
from cacheinf_ros.engine.truncation import Truncation
from cacheinf_ros.graph.ir import Conv, Global, Operator


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Grow:
    """Fills ``target`` with the pixels that read one of ``source``.

    Attributes:
        inwards: whether it is from outputs to the inputs that they read: nothing lies beside an image of outputs.
    """

    source: ActiveSet
    target: ActiveSet
    through: Through
    inwards: bool = False


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Union:
    """Fills ``target`` with the pixels of either."""

    first: ActiveSet
    second: ActiveSet
    target: ActiveSet


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Difference:
    """Fills ``target`` with the pixels of ``source`` that are not in ``without``."""

    source: ActiveSet
    without: ActiveSet
    target: ActiveSet


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FillIfAny:
    """Fills ``target`` completely when ``source`` has any pixel, or when padding changed: all depends on everything."""

    source: ActiveSet
    target: ActiveSet


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Compute:
    """Computes the active pixels of an operator's output, in its map.

    Attributes:
        active: the pixels.
        changed: filled with those of them that are passed on; the same object as ``active`` without truncation.
    """

    operator: Operator
    active: ActiveSet
    changed: ActiveSet
    truncation: Truncation | None = None

    @property
    def flops_per_pixel(self) -> int:
        """Of convolutions; the others are counted as free."""
        return self.operator.flops_per_pixel if isinstance(self.operator, Conv) else 0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Call:
    """Computes a tensor from completed ones by torch, if any of them changed.

    Attributes:
        inputs: the changed sets of its inputs.
        changed: filled with the pixels that changed; one flag where the output is no map.
        share: where another machine may be the one that computes it; then all of it counts as changed.
    """

    operator: Global
    inputs: tuple[ActiveSet, ...]
    changed: ActiveSet
    share: TensorReplica | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Poison:
    """Overwrites maps with NaN: whoever reads them now reads what is not there. For debugging."""

    maps: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LocalRows:
    """Fills ``target`` with what this machine computes: what ``grown`` holds, and what is stale, of its own rows."""

    share: TensorReplica
    grown: ActiveSet
    target: ActiveSet


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Forward:
    """Fills ``target`` with what may have changed: of this machine's own rows ``changed``, elsewhere ``grown``."""

    share: TensorReplica
    changed: ActiveSet
    grown: ActiveSet
    target: ActiveSet


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Send:
    """Sends what another machine reads of a tensor and lacks."""

    share: TensorReplica

    @property
    def crosses(self) -> bool:
        """Whether it reads anything."""
        first, last = self.share.sent
        return last > first


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Receive:
    """Waits for what this machine reads of a tensor and another has computed, and writes it into the map.

    Attributes:
        changed: what may have changed of the tensor: of the rows received, exactly what came.
    """

    share: TensorReplica
    changed: ActiveSet

    @property
    def crosses(self) -> bool:
        """Whether there is anything to wait for."""
        first, last = self.share.received
        return last > first


Step = Grow | Union | Difference | FillIfAny | Compute | Call | Poison | LocalRows | Forward | Send | Receive
