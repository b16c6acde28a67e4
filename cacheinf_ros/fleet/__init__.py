# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Many robots on many machines: gateways, the ledger that places sessions, and the processes that compute them."""

from cacheinf_ros.fleet.machine_choice import FleetRules
from cacheinf_ros.fleet.status import FleetStatus

__all__ = [
    "FleetRules", "FleetStatus",
]  # fmt: skip

# Importing these loads the engine and torch, which the ledger starts without.
__all__ += ["gateway", "host", "relay"]
# Who has no cluster, or none that is simulated, need not load it.
__all__ += ["own_machines", "ray_cluster", "simulated_fleet", "simulation"]
