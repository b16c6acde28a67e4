# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""A real Ray cluster of two nodes on this machine, one of which is killed while it serves a robot."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
from fleets import MODEL, START_S, Rig
from sessions import ENGINE, until

pytest.importorskip("ray", reason="needs Ray: pip install -r requirements-fleet.txt")

from cacheinf_ros.catalog.serving.catalog_node_configs import CatalogServerConfig
from cacheinf_ros.errors import LinkError
from cacheinf_ros.fleet.host import HostSetting
from cacheinf_ros.fleet.messages import Place
from cacheinf_ros.fleet.own_machines import OwnMachines
from cacheinf_ros.fleet.ray_actors import DIRECTOR
from cacheinf_ros.fleet.ray_cluster import RayCluster
from cacheinf_ros.fleet.start_error import StartError
from cacheinf_ros.graph import load_model
from cacheinf_ros.offload import Identity
from cacheinf_ros.pipeline.node_configs import ModelConfig


@pytest.fixture
def machines() -> Iterator[OwnMachines]:
    made = OwnMachines(2, cores=2.0)
    yield made
    made.close()


def assert_held(*machines: str) -> None:
    """Check that each machine has the weights in its object store, read-only."""
    import ray

    model = Identity.of(load_model(MODEL))
    key = HostSetting(asked=model, model=ModelConfig(), catalogs=CatalogServerConfig(), engine=ENGINE).weights_key
    director = ray.get_actor(DIRECTOR)
    for machine in machines:
        (reference,) = ray.get(director.find_model.remote(machine, key, "test"))
        content = ray.get(reference)
        assert content.places and not content.packed.flags.writeable


def test_a_killed_node_costs_one_frame(machines: OwnMachines) -> None:
    head, other = machines.names
    cluster = RayCluster(machines.address)
    cluster.drain(head)  # so that the session is at the other one
    rig = Rig(cluster, robots=1)
    try:
        rig.connect()
        cluster.drain(head, is_wanted=False)
        until(lambda: all(machine.ready for machine in cluster.status().machines), lambda: rig.film(1), START_S)
        assert [session.machine for session in cluster.status().sessions] == [other]
        assert_held(head, other)
        killing = threading.Thread(target=machines.kill, args=(other,))
        killing.start()
        rig.film(10, period_s=0.5)
        killing.join()
        (robot,) = rig.robots
        assert robot.shared.count(False) <= 1, robot.shared
        assert all(robot.shared[-4:])
        assert [session.machine for session in cluster.status().sessions] == [head]
    finally:
        rig.gateway.close()


def test_a_process_without_its_model_is_told_from_a_lost_one(machines: OwnMachines) -> None:
    cluster = RayCluster(machines.address)
    setting = HostSetting(
        asked=Identity.of(load_model(MODEL)), model=ModelConfig(model="nowhere.py:nothing"),
        catalogs=CatalogServerConfig(), engine=ENGINE,
    )  # fmt: skip
    place = Place(host="host", machine=machines.names[1], gateway="gateway", is_new=True, memory_bytes=1e8, cores=0.1)
    try:
        cluster.start(place, setting)
        with pytest.raises(StartError, match=r"nowhere\.py"):
            until(lambda: cluster.reach("host") is not None, patience_s=START_S)
        cluster.stop("host")
        with pytest.raises(LinkError, match="gone"):
            until(lambda: cluster.reach("host") is not None)
    finally:
        cluster.close()
