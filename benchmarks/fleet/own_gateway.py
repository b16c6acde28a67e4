# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""A gateway to a Ray cluster on this machine, for measurements."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from cacheinf_ros.catalog.serving.catalog_node_configs import CatalogServerConfig
from cacheinf_ros.catalog.serving.partitioned_models import SplitModels
from cacheinf_ros.engine import EngineConfig, Mode
from cacheinf_ros.fleet.gateway import FleetGateway
from cacheinf_ros.fleet.host import HostSetting
from cacheinf_ros.fleet.machine_choice import FleetRules
from cacheinf_ros.fleet.own_machines import OWN_STORE, OwnMachines
from cacheinf_ros.fleet.ray_cluster import RayCluster
from cacheinf_ros.graph import Model
from cacheinf_ros.offload import Identity
from cacheinf_ros.pipeline.node_configs import ModelConfig

ENGINE = EngineConfig(mode=Mode.EXACT, threads=1)


@contextmanager
def own_gateway(
    model: Model,
    config: ModelConfig,
    cores: float,
    rules: FleetRules,
    *,
    share_weights: bool = True,
    store_bytes: int = OWN_STORE,
) -> Iterator[FleetGateway]:
    """Run a gateway to a cluster of one node, and close both at the end.

    Args:
        config: how the model is loaded.
        cores: the number of cores that the node claims to have.
        share_weights, store_bytes: see :class:`HostSetting` and :class:`OwnMachines`.
    """

    def setting(asked: Identity) -> HostSetting:
        return HostSetting(
            asked=asked, model=config, catalogs=CatalogServerConfig(), engine=ENGINE, share_weights=share_weights
        )

    machines = OwnMachines(1, cores, store_bytes)
    try:
        gateway = FleetGateway(RayCluster(machines.address, rules), SplitModels(model, ()), setting, lambda text: None)
        try:
            yield gateway
        finally:
            gateway.close()
    finally:
        machines.close()
