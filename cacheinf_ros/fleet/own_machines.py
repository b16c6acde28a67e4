# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""A Ray cluster on this machine alone, whose nodes can be killed: for demonstrations and tests."""

from __future__ import annotations

from importlib import import_module

from cacheinf_ros.fleet.ray_library import ray

OWN_STORE = 80 * 2**20
"""The default size of a node's object store, in bytes."""
_OWN_MEMORY = 8 * 2**30  # memory of a node


class OwnMachines:
    """The nodes of a Ray cluster on this machine.

    Attributes:
        address: address of the cluster's head, for :class:`.ray_cluster.RayCluster`.
        names: names of the living nodes, the head first.
    """

    def __init__(self, nodes: int, cores: float, store_bytes: int = OWN_STORE) -> None:
        """Start the cluster.

        Args:
            nodes: number of nodes.
            cores: number of cores that each node claims to have.
            store_bytes: size of each node's object store.
        """
        ray()
        made = import_module("ray.cluster_utils")
        self._shape = {"num_cpus": cores, "memory": _OWN_MEMORY, "object_store_memory": store_bytes}
        self._cluster = made.Cluster(initialize_head=True, head_node_args={**self._shape, "include_dashboard": False})
        self._nodes = {self._cluster.head_node.node_id: self._cluster.head_node}
        self.address: str = self._cluster.address
        for _ in range(nodes - 1):
            self.add()

    @property
    def names(self) -> list[str]:
        """The names of the living nodes, the head first."""
        return list(self._nodes)

    def add(self) -> str:
        """Add a node, and return its name."""
        node = self._cluster.add_node(**self._shape)
        self._nodes[node.node_id] = node
        return str(node.node_id)

    def kill(self, name: str) -> None:
        """Kill a node and all its processes, as if its machine had lost power."""
        self._cluster.remove_node(self._nodes.pop(name), allow_graceful=False)

    def close(self) -> None:
        """End all nodes."""
        self._cluster.shutdown()
