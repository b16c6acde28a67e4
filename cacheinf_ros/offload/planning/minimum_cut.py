# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The best place to cut a network in two by layers.

This is DADS ("Dynamic Adaptive DNN Surgery for Inference Acceleration on the Edge", Hu et al. 2019, section IV): a
minimum cut finds the partition with the least latency of one frame. Everything before the cut is computed by the robot,
everything behind it by the server.
"""

from __future__ import annotations

import numpy as np

from cacheinf_ros.offload.planning.partition_costs import at_share
from cacheinf_ros.offload.planning.timeline import Conditions, transfer_bytes
from cacheinf_ros.offload.planning.workload import Integers, Workload

_NEVER = 2**30  # microseconds: the capacity of an edge that must not be cut
_MOST = 2**22  # microseconds: the most that any other edge costs, so that no sum exceeds 31 bits


def dnn_surgery(workload: Workload, conditions: Conditions) -> Integers:
    """Return the best cut as rows at the robot, int64 [operators].

    It minimises what all operators take where they are computed, plus what crosses the link. A tensor crosses once,
    however many operators read it.
    """
    operators = len(workload.names)
    robot, server = operators * 2 + 1, operators * 2 + 2  # nodes; operator i is i, its transferred output operators + i
    image = operators * 2  # the node of the image that is sent to the server
    robot_ms = at_share(conditions.robot_ms, conditions.active_robot[1:])
    server_ms = at_share(conditions.server_ms, conditions.active_server[1:])
    rate = conditions.link.bytes_per_ms
    up, down = (workload.heights * row / rate for row in transfer_bytes(workload, conditions))
    delay = conditions.link.delay_ms
    inside = delay + conditions.robot_transfer_ms + conditions.server_transfer_ms
    edges: list[tuple[int, int, float]] = [(robot, image, up[0] + delay)]
    for tensor in workload.results.tolist():
        server_ms[tensor - 1] += down[tensor] + delay
    for i in range(operators):
        edges += [(robot, i, server_ms[i]), (i, server, robot_ms[i]), (i, operators + i, up[i + 1] + inside)]
        for tensor in _parents(workload, i):
            if tensor == 0:
                edges.append((image, i, np.inf))
            else:
                edges += [(operators + tensor - 1, i, np.inf), (i, tensor - 1, np.inf)]
    for number in range(workload.groups.max(initial=-1) + 1):
        members = np.flatnonzero(workload.groups == number).tolist()
        edges += [(a, b, np.inf) for a, b in zip(members, [*members[1:], members[0]], strict=True) if a != b]
    reached = _side_of_source(edges, robot, server)
    return np.where(np.isin(np.arange(operators), reached), workload.heights[1:], 0)


def _parents(workload: Workload, operator: int) -> set[int]:
    reads = workload.reads
    return set(reads.tensor[reads.first[operator] : reads.first[operator + 1]].tolist())


def _side_of_source(edges: list[tuple[int, int, float]], source: int, sink: int) -> Integers:
    """Return the nodes on the source's side of a minimum cut; edges are (from, to, milliseconds), and add up."""
    # late imports: a tenth of the time in which a node starts, which need not cut anything
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import breadth_first_order, maximum_flow

    merged: dict[tuple[int, int], int] = {}
    for start, end, cost in edges:
        capacity = _NEVER if np.isinf(cost) else min(_MOST, round(1e3 * cost))
        merged[start, end] = min(_NEVER, merged.get((start, end), 0) + capacity)
    places, capacities = np.array(list(merged)), np.array(list(merged.values()), np.int32)
    graph = coo_array((capacities, (places[:, 0], places[:, 1])), shape=(sink + 1, sink + 1)).tocsr()
    rest = (graph - maximum_flow(graph, source, sink).flow).tocsr()
    rest.eliminate_zeros()
    return np.asarray(breadth_first_order(rest, source, return_predecessors=False), np.int64)
