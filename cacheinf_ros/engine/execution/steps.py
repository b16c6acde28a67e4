# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The steps of a plan: propagation of active sets, and operators on their pixels."""

from __future__ import annotations

from dataclasses import dataclass

from cacheinf_ros.engine.delta_threshold import DeltaThreshold
from cacheinf_ros.engine.execution.access_pattern import Footprint
from cacheinf_ros.engine.execution.active import ActiveSet
from cacheinf_ros.engine.partition.partition_steps import Forward, LocalRows, Receive, Send
from cacheinf_ros.engine.partition.replicas import TensorReplica
from cacheinf_ros.graph.ir import Conv, Global, Operator


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Propagate:
    """Fills ``target`` with the pixels that read one of ``source``.

    Attributes:
        footprint: which pixels of ``source`` each pixel of ``target`` reads.
        inwards: whether it propagates from outputs back to the inputs that they read; then there is no padding.
    """

    source: ActiveSet
    target: ActiveSet
    footprint: Footprint
    inwards: bool = False


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Union:
    """Fills ``target`` with the pixels that are in ``first`` or in ``second``."""

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
    """Fills ``target`` completely when ``source`` has any pixel or padding changed, as all depends on everything."""

    source: ActiveSet
    target: ActiveSet


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Compute:
    """Computes the active pixels of an operator's output, in its map.

    Attributes:
        active: the pixels to compute.
        delta: the threshold below which a pixel's change is not passed on; None: every change is.
        changed: filled with the active pixels that are passed on; the same object as ``active`` without a threshold.
    """

    operator: Operator
    active: ActiveSet
    changed: ActiveSet
    delta: DeltaThreshold | None

    @property
    def flops_per_pixel(self) -> int:
        """The floating-point operations of one output pixel of a convolution; other operators count as free."""
        return self.operator.flops_per_pixel if isinstance(self.operator, Conv) else 0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Call:
    """Computes a tensor from completed ones by torch, if any of them changed.

    Attributes:
        inputs: the changed sets of the operator's inputs.
        changed: filled with the pixels that changed; a single flag where the output is no map.
        replica: the output's replica, where another machine may compute it; in frames in which it does, all of it
            counts as changed.
    """

    operator: Global
    inputs: tuple[ActiveSet, ...]
    changed: ActiveSet
    replica: TensorReplica | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Poison:
    """Overwrites dead maps with NaN, so that reading one by mistake shows in the results. For debugging."""

    maps: tuple[str, ...]


Step = Propagate | Union | Difference | FillIfAny | Compute | Call | Poison | LocalRows | Forward | Send | Receive
