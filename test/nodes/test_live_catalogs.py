# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Models can be registered and withdrawn while the nodes run, and the budget goes on."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from catalogs import OTHER, TINY, catalog_command, made_catalog

pytest.importorskip("rclpy", reason="needs ROS 2")

from cacheinf_ros.catalog.variant import Cost, Place
from cacheinf_ros.harness import NodeCommand, NodeGroup
from cacheinf_ros.pipeline.polling import wait_until

DEADLINE_S = 60.0
COSTS = {
    Place.DEVICE: Cost(energy_j=1.0, memory_bytes=10_000, load_energy_j=1.0),
    Place.CLOUD: Cost(energy_j=0.1, money=1e-4),
}
BUDGET_J = 1e6
NODE = "catalog_inference"


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Write two catalogs of the tiny network and one of another."""
    references = {"left": TINY, "right": TINY, "mixed": OTHER}
    return {
        name: str(made_catalog(tmp_path_factory.mktemp(name), name, COSTS, reference).path)
        for name, reference in references.items()
    }


@pytest.fixture(scope="module")
def robot(nodes: NodeGroup, folders: dict[str, str]) -> Iterator[Any]:
    server = {"server.use": True, "server.probe_s": 0.2, "server.probe_max_s": 0.5, "policy": "server_first"}
    deadlines = {"server.deadline_ms": 1000.0, "server.load_deadline_ms": 30_000.0}
    budget = {"energy_budget_j": BUDGET_J, "cloud_budget": 1e6}
    node = nodes.start(catalog_command([folders["left"]], rates=[20.0], **budget, **server, **deadlines))
    node.wait_ready(DEADLINE_S)
    yield node
    assert node.stop() == 0
    assert "Traceback" not in node.output


def answered(models: set[str], where: str) -> Callable[[list[Any]], bool]:
    """Return a condition: the latest results are of exactly these models, and from here."""

    def hold(results: list[Any]) -> bool:
        latest = results[-4 * len(models) :]
        return len(latest) >= 4 and {(r.model, r.where) for r in latest} == {(model, where) for model in models}

    return hold


def set_catalogs(station: Any, node: str, *folders: str) -> str:
    """Set a node's catalogs; returns why it refused, or nothing if it did not."""
    (answer,), _ = station.set_parameters(node, catalogs=list(folders))
    assert answer.successful or answer.reason
    return str(answer.reason)


def test_what_cannot_be_used_is_refused_and_all_goes_on(
    robot: Any, folders: dict[str, str], station: Any, camera_image: Callable[..., Any], film: Any, tmp_path: Path
) -> None:
    station.wait_for_nodes(camera_image(0), subscribers=1)
    film(answered({"left"}, "local"))
    assert "nosuch/catalog.yaml cannot be read" in set_catalogs(station, NODE, folders["left"], "nosuch")
    assert "two catalogs are for 'left'" in set_catalogs(station, NODE, folders["left"], folders["left"])
    assert "name folders" in set_catalogs(station, NODE, "")
    film(answered({"left"}, "local"))


def test_a_model_comes_while_the_budget_goes_on_and_goes_again(
    robot: Any, folders: dict[str, str], station: Any, film: Any
) -> None:
    film(answered({"left"}, "local"))
    assert wait_until(lambda: station.said(NODE).get("energy_left_j", "n/a") != "n/a", DEADLINE_S)
    assert not set_catalogs(station, NODE, folders["left"], folders["mixed"])
    results = film(answered({"left", "mixed"}, "local"))
    assert not any(result.error for result in results)
    stamps = [(r.model, r.header.stamp.sec, r.header.stamp.nanosec) for r in results]
    assert len(set(stamps)) == len(stamps)
    assert wait_until(lambda: station.said(NODE).get("mixed: served", "n/a") not in ("n/a", "0"), DEADLINE_S)
    said = station.said(NODE)
    assert int(said["left: served"]) > int(said["mixed: served"])
    assert float(said["horizon_left_s"]) < 36_000 - 1
    (answer,), _ = station.set_parameters(NODE, rates=[5.0, 20.0])
    assert answer.successful
    assert "2 rates for 1 catalogs" in set_catalogs(station, NODE, folders["mixed"])
    (answer,), _ = station.set_parameters(NODE, rates=[20.0])
    assert answer.successful
    assert not set_catalogs(station, NODE, folders["mixed"])
    film(answered({"mixed"}, "local"))
    assert wait_until(lambda: not any(name.startswith("left") for name in station.said(NODE)), DEADLINE_S)


def test_what_turns_out_to_be_unusable_is_said_and_all_goes_on(
    robot: Any, folders: dict[str, str], station: Any, film: Any, tmp_path: Path
) -> None:
    """These variants run split, while the server's policy is to divide no frames."""
    split = {**COSTS, Place.SPLIT: Cost(energy_j=0.5, money=1e-5, memory_bytes=10_000)}
    folder = str(made_catalog(tmp_path / "split", "split", split).path)
    (answer,), _ = station.set_parameters(NODE, **{"server.policy": "local"})
    assert answer.successful
    assert not set_catalogs(station, NODE, folders["mixed"], folder)
    assert wait_until(lambda: "splits no frames" in station.said(NODE).get("catalogs", ""), DEADLINE_S)
    film(answered({"mixed"}, "local"))
    assert not set_catalogs(station, NODE, folders["mixed"])
    assert wait_until(lambda: "catalogs" not in station.said(NODE), DEADLINE_S)
    film(answered({"mixed"}, "local"))


def test_a_server_learns_of_models_too(
    robot: Any, nodes: NodeGroup, folders: dict[str, str], station: Any, film: Any, tmp_path: Path
) -> None:
    shutil.copytree(folders["left"], tmp_path / "lost")
    lost = tmp_path / "lost" / "catalog.yaml"
    lost.write_text(lost.read_text().replace(TINY, str(tmp_path / "nosuch.yaml")))
    server = nodes.start(NodeCommand(executable="server", parameters={"model": TINY, "threads": 1}))
    server.wait_ready(DEADLINE_S)
    assert not set_catalogs(station, NODE, folders["mixed"])
    film(answered({"mixed"}, "local"))
    assert "cannot be read" in set_catalogs(station, "server", "nosuch")
    assert not set_catalogs(station, "server", str(lost.parent))  # only the original's card is lost
    assert wait_until(lambda: "the former ones go on" in station.said("server").get("catalogs", ""), DEADLINE_S)
    assert not set_catalogs(station, "server", folders["left"], folders["mixed"])
    film(answered({"mixed"}, "server"))
    assert not set_catalogs(station, NODE, folders["mixed"], folders["left"])
    results = film(answered({"mixed", "left"}, "server"))
    assert not any(result.error for result in results)
    assert server.stop() == 0
    assert "Traceback" not in server.output
