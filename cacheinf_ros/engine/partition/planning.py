# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Makes plans for graphs that two machines execute together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cacheinf_ros.engine.caching import Caching
from cacheinf_ros.engine.delta_threshold import DeltaThreshold
from cacheinf_ros.engine.execution.active import ActiveSet, Size
from cacheinf_ros.engine.execution.plan import Planning, Structure
from cacheinf_ros.engine.partition.partition_steps import Forward, LocalRows, Receive, Send
from cacheinf_ros.engine.partition.replicas import TensorReplica, TensorReplicas
from cacheinf_ros.graph.ir import Operator


class PartitionedPlanning(Planning):
    """A plan for two machines that is being made.

    What the other machine reads is sent as soon as it is computed; what the other machine has computed is received just
    before it is read. Maps that are not kept are computed where this machine's rows of kept ones read them, and are not
    transferred.
    """

    def __init__(
        self,
        structure: Structure,
        thresholds: Mapping[str, DeltaThreshold],
        replicas: TensorReplicas,
        caching: Caching,
        supplies: Mapping[str, Sequence[Operator]],
    ) -> None:
        super().__init__(structure, thresholds, caching, supplies)
        self._replicas = replicas
        self._awaited: set[str] = set()  # tensors whose part from the other machine has not been received yet

    def _finish(self) -> None:
        """Add steps that receive those parts of the graph's outputs that nothing has read yet."""
        for _, tensor in self._layout.graph.outputs:
            self._changed_of(tensor)

    def _replica(self, tensor: str) -> TensorReplica:
        return self._replicas[tensor]

    def _add_local(self, operator: Operator, active: ActiveSet, delta: DeltaThreshold | None) -> None:
        if self._is_dropped(operator.output):
            self.changed[operator.output] = active
            return
        if delta is None:
            local = self._local(operator.output, active)
            self._supply(operator, local)
            self._publish(operator.output, self._compute(operator, local), active)
            return
        # A stale copy is no measure of a change: the other machine may have computed something else in between, which
        # readers of the tensor here saw, so that a new value may equal the copy and yet be a change to them. Stale
        # pixels are therefore taken out first, and are always passed on.
        stale = self._local(operator.output, self._new(active.size))
        local = self._union([self._local(operator.output, active), stale])
        self._supply(operator, local)
        changed = self._union([self._compute(operator, local, delta), stale])
        self._publish(operator.output, changed, active)

    def _local(self, output: str, active: ActiveSet) -> ActiveSet:
        """Return the pixels that this machine is to compute: the active ones of its rows, and those that were stale."""
        local = self._new(active.size)
        self.steps.append(LocalRows(replica=self._replicas[output], active=active, target=local))
        return local

    def _whole(self, active: ActiveSet, size: Size) -> ActiveSet:
        return self._fill_if_any(active, size)  # maybe only the other machine knows that the input changed

    def _publish(self, tensor: str, changed: ActiveSet, active: ActiveSet) -> None:
        replica, forwarded = self._replicas[tensor], self._new(changed.size)
        self.steps += [
            Forward(replica=replica, changed=changed, active=active, target=forwarded),
            Send(replica=replica),
        ]
        self._awaited.add(tensor)
        self.changed[tensor] = forwarded

    def _changed_of(self, name: str) -> ActiveSet:
        for leaf in self._layout.leaves[name]:
            if leaf in self._awaited:
                self._awaited.remove(leaf)
                self.steps.append(Receive(replica=self._replicas[leaf], changed=self.changed[leaf]))
        return super()._changed_of(name)
