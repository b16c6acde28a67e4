# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Plans the execution of a graph, any number of times, on one machine or on two."""

from __future__ import annotations

from collections.abc import Mapping

from cacheinf_ros.engine.caching import EVERYTHING, Caching
from cacheinf_ros.engine.delta_threshold import DeltaThreshold
from cacheinf_ros.engine.execution.plan import Plan, Planning, Structure
from cacheinf_ros.engine.layout import Layout
from cacheinf_ros.engine.partition.planning import PartitionedPlanning
from cacheinf_ros.engine.partition.replicas import TensorReplicas
from cacheinf_ros.graph.ir import GlobalMean, Operator


class Planner:
    """Plans the execution of a graph."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._structure = Structure.of(layout)
        self._producers = {operator.output: (i, operator) for i, operator in enumerate(layout.operators)}

    def plan(
        self,
        caching: Caching = EVERYTHING,
        thresholds: Mapping[str, DeltaThreshold] | None = None,
        replicas: TensorReplicas | None = None,
    ) -> Plan:
        """Make a plan.

        Args:
            caching: which maps are kept.
            thresholds: by tensor; tensors without one, or that are not kept, pass on every pixel that was computed.
            replicas: the replicas of the tensors of which another machine may compute a part; None: there is none.
        """
        if replicas is not None:
            supplies = self._supplies(caching, is_partitioned=True)
            return PartitionedPlanning(self._structure, thresholds or {}, replicas, caching, supplies).plan()
        return Planning(self._structure, thresholds or {}, caching, self._supplies(caching)).plan()

    def _supplies(self, caching: Caching, *, is_partitioned: bool = False) -> dict[str, tuple[Operator, ...]]:
        """Return, by each operator's kept output, the operators with dropped outputs to compute before it, in order.

        On one machine, a map that is computed completely whenever anything changes is computed for its first reader
        only. With two machines each computes only what its own rows need.
        """
        layout = self._layout
        complete: set[str] = set()
        found: dict[str, tuple[Operator, ...]] = {}
        for operator in layout.operators:
            if layout.root(operator.output) in caching.dropped:
                continue
            chain: dict[str, tuple[int, Operator]] = {}
            waiting = list(operator.inputs)
            while waiting:
                for leaf in layout.leaves[waiting.pop()]:
                    if leaf not in chain and leaf not in complete and layout.root(leaf) in caching.dropped:
                        chain[leaf] = self._producers[leaf]
                        waiting += chain[leaf][1].inputs
            found[operator.output] = tuple(producer for _, producer in sorted(chain.values(), key=lambda p: p[0]))
            if is_partitioned:
                continue
            if caching.dense:
                complete |= set(chain)
            elif isinstance(operator, GlobalMean):  # it reads all pixels, even those that nothing else reads
                complete.update(leaf for name in operator.inputs for leaf in layout.leaves[name] if leaf in chain)
        return found
