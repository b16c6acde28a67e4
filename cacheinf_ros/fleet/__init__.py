# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Fleets of robots and servers: gateways, the ledger that places sessions, and the processes that compute them."""

from cacheinf_ros.fleet.machine_choice import FleetRules
from cacheinf_ros.fleet.status import FleetStatus

__all__ = [
    "FleetRules", "FleetStatus",
]  # fmt: skip

# Not imported here: these load the engine and torch, which the ledger does not need.
__all__ += ["gateway", "host", "relay"]
# Not imported here: needed only with a cluster or a simulation.
__all__ += ["own_machines", "ray_cluster", "simulated_fleet", "simulation"]
