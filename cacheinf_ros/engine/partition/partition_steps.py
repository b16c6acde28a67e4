# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The steps of a plan that two machines execute together."""

from __future__ import annotations

from dataclasses import dataclass

from cacheinf_ros.engine.execution.active import ActiveSet
from cacheinf_ros.engine.partition.replicas import TensorReplica


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LocalRows:
    """Fills ``target`` with what this machine computes: of its own rows ``active``, and what is stale."""

    replica: TensorReplica
    active: ActiveSet
    target: ActiveSet


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Forward:
    """Fills ``target`` with what may have changed: of this machine's own rows ``changed``, elsewhere ``active``."""

    replica: TensorReplica
    changed: ActiveSet
    active: ActiveSet
    target: ActiveSet


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Send:
    """Sends what another machine reads of a tensor and lacks."""

    replica: TensorReplica

    @property
    def is_needed(self) -> bool:
        """Whether the other machine reads anything."""
        first, last = self.replica.sent
        return last > first


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Receive:
    """Waits for what this machine reads of a tensor and another has computed, and writes it into the map.

    Attributes:
        changed: what may have changed of the tensor: of the rows received, exactly what came.
    """

    replica: TensorReplica
    changed: ActiveSet

    @property
    def is_needed(self) -> bool:
        """Whether there is anything to wait for."""
        first, last = self.replica.received
        return last > first
