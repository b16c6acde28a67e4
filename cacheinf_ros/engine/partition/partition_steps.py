# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The steps that only plans for two machines have."""

from __future__ import annotations

from dataclasses import dataclass

from cacheinf_ros.engine.execution.active import ActiveSet
from cacheinf_ros.engine.partition.replicas import TensorReplica


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LocalRows:
    """Fills ``target`` with the pixels that this machine computes: those of its rows that are active or stale."""

    replica: TensorReplica
    active: ActiveSet
    target: ActiveSet


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Forward:
    """Fills ``target`` with pixels that may have changed: ``changed`` in this machine's rows, ``active`` elsewhere."""

    replica: TensorReplica
    changed: ActiveSet
    active: ActiveSet
    target: ActiveSet


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Send:
    """Sends the pixels of a tensor that the other machine reads and lacks."""

    replica: TensorReplica

    @property
    def is_needed(self) -> bool:
        """Whether the other machine reads any of this machine's rows."""
        first, last = self.replica.sent
        return last > first


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Receive:
    """Waits for the pixels of a tensor that this machine reads and the other has computed, and writes them to the map.

    Attributes:
        changed: the pixels of the tensor that may have changed; in the received rows it becomes exactly what came.
    """

    replica: TensorReplica
    changed: ActiveSet

    @property
    def is_needed(self) -> bool:
        """Whether this machine reads any of the other machine's rows."""
        first, last = self.replica.received
        return last > first
