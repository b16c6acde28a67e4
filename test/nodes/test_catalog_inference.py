# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Many models under a budget in real processes: tests of where requests are served, and that each has its result."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from catalogs import MODELS, OTHER, TINY, catalog_command, made_catalog, two_catalogs

from cacheinf_ros.catalog.variant import Cost, Place
from cacheinf_ros.harness import NodeCommand, NodeGroup
from cacheinf_ros.pipeline.polling import wait_until

pytest.importorskip("rclpy", reason="needs ROS 2")

from std_srvs.srv import SetBool

DEADLINE_S = 60.0
START_S = 60.0
COSTS = {
    Place.DEVICE: Cost(energy_j=1.0, memory_bytes=10_000, load_energy_j=1.0),
    Place.CLOUD: Cost(energy_j=0.1, money=1e-4),
}


@pytest.fixture(scope="module")
def catalogs(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Write two catalogs of the tiny network with known costs."""
    return two_catalogs(tmp_path_factory, COSTS)


def test_what_cannot_start_says_why_in_one_line(nodes: NodeGroup, catalogs: list[str]) -> None:
    attempts: dict[str, dict[str, Any]] = {
        "name folders that `cacheinf catalog build` has written": {},
        "nosuch/catalog.yaml cannot be read": {"catalogs": ["nosuch"]},
        "give one for each, or one for all": {"catalogs": catalogs, "rates": [1.0, 2.0, 3.0]},
        "two catalogs are for 'left'": {"catalogs": [catalogs[0], catalogs[0]]},
    }
    started = [
        nodes.start(NodeCommand(executable="catalog_inference", parameters=values)) for values in attempts.values()
    ]
    for expected, process in zip(attempts, started, strict=True):
        assert process.wait(START_S) == 2
        fatal = [line for line in process.output.splitlines() if "[FATAL]" in line]
        assert len(fatal) == 1 and expected in fatal[0], process.output
        assert "Traceback" not in process.output


@pytest.fixture(scope="module")
def robot(nodes: NodeGroup, catalogs: list[str]) -> Iterator[Any]:
    deadlines = {"server.deadline_ms": 1000.0, "server.load_deadline_ms": 30_000.0}
    probes = {"server.use": True, "server.probe_s": 0.2, "server.probe_max_s": 0.5}
    node = nodes.start(catalog_command(catalogs, rates=[30.0, 10.0], policy="server_first", **deadlines, **probes))
    node.wait_ready(START_S)
    yield node
    assert node.stop() == 0
    assert "Traceback" not in node.output


def all_from(where: str, error: str = "") -> Callable[[list[Any]], bool]:
    """Return a condition: the latest result of each model is from here, with this text in its error."""

    def hold(results: list[Any]) -> bool:
        last = {result.model: result for result in results}
        return set(last) == set(MODELS) and all(r.where == where and error in r.error for r in last.values())

    return hold


def start_server(nodes: NodeGroup, catalogs: list[str]) -> Any:
    server = nodes.start(
        NodeCommand(executable="server", parameters={"model": TINY, "catalogs": catalogs, "threads": 1})
    )
    server.wait_ready(START_S)
    return server


def test_the_server_comes_goes_and_comes_back(
    robot: Any, nodes: NodeGroup, catalogs: list[str], station: Any, camera_image: Callable[..., Any], film: Any
) -> None:
    station.wait_for_nodes(camera_image(0), subscribers=1)
    results = film(all_from("local"))
    server = start_server(nodes, catalogs)
    results += film(all_from("server"))
    os.kill(server.pid, signal.SIGKILL)
    results += film(all_from("local"))
    another = start_server(nodes, catalogs)
    results += film(all_from("server"))
    film(lambda _: station.said("catalog_inference").get("server_price", "0.0%").split()[-1] != "0.0%")
    assert not any(result.error for result in results)
    assert {result.model for result in results} == set(MODELS)
    assert {result.variant for result in results} == {"original"}
    assert any("the most accurate that fits the budget" in result.why for result in results)
    assert any("did not answer" in result.why for result in results)
    assert another.stop() == 0
    assert "Traceback" not in another.output
    film(all_from("local"))


def test_every_accepted_request_has_one_result(robot: Any, station: Any, film: Any) -> None:
    from cacheinf_ros.msg import FrameFigures

    figures: list[Any] = []
    station.node.create_subscription(FrameFigures, f"catalog_inference/figures/{MODELS[0]}", figures.append, 1000)

    def has_figures(result: Any) -> bool:
        return any(each.header == result.header for each in list(figures))

    film(lambda results: len(results) >= 20 and any(r.model == MODELS[0] and has_figures(r) for r in results))

    def counts() -> tuple[int, int]:
        values = station.said("catalog_inference")
        return int(values["accepted"]), int(values["results"])

    assert wait_until(lambda: "catalog_inference" in station.diagnostics, DEADLINE_S)
    assert wait_until(lambda: counts()[0] == counts()[1] > 0, DEADLINE_S)
    stamps = [(r.model, r.header.stamp.sec, r.header.stamp.nanosec) for r in station.results]
    assert len(set(stamps)) == len(stamps)


def test_a_budget_that_is_used_up_is_said_and_a_new_one_holds_at_once(robot: Any, station: Any, film: Any) -> None:
    (answer,), _ = station.set_parameters("catalog_inference", energy_budget_j=0.0)
    assert answer.successful
    refused = film(all_from("", "refused: the budget is used up"))
    assert all(result.model and not result.data for result in refused if result.error)
    (answer,), _ = station.set_parameters("catalog_inference", energy_budget_j=1e6)
    assert answer.successful
    film(all_from("local"))
    values = station.said("catalog_inference")
    assert {"energy_left_j", "money_left", "horizon_left_s", "left: variant", "right: served"} <= set(values)


def test_wrong_rates_are_refused_while_it_runs(robot: Any, station: Any) -> None:
    (answer,), _ = station.set_parameters("catalog_inference", rates=[1.0, 2.0, 3.0])
    assert not answer.successful and "3 rates for 2 catalogs" in answer.reason
    (answer,), _ = station.set_parameters("catalog_inference", rates=[20.0, 5.0])
    assert answer.successful


def test_a_node_that_rested_answers_again(
    robot: Any, station: Any, film: Any, camera_image: Callable[..., Any]
) -> None:
    assert station.ask("catalog_inference/enable", SetBool, data=False).success
    camera = station.camera(camera_image(0))
    assert wait_until(lambda: camera.get_subscription_count() == 0, DEADLINE_S)
    assert station.ask("catalog_inference/enable", SetBool, data=True).success
    film(all_from("local"))


def test_a_variant_that_the_server_has_not_is_refused(robot: Any, nodes: NodeGroup, station: Any, film: Any) -> None:
    """It comes before the next test: a robot may say why a server with catalogs refused it after that has ended."""
    before = len(robot.output)
    parameters = {"model": OTHER, "input_size": "61x47", "threads": 1}  # the catalogs' original is TINY
    server = nodes.start(NodeCommand(executable="server", parameters=parameters))
    server.wait_ready(START_S)
    film(lambda results: "with another graph, weights or card" in robot.output[before:])
    assert "has catalogs of" not in robot.output[before:]
    results = film(all_from("local"))
    assert not any(result.error for result in results)
    assert server.stop() == 0


@pytest.fixture(scope="module")
def of_other_weights(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Write two catalogs of the same names, and of the same network with other weights."""
    folder = tmp_path_factory.mktemp("other")
    network = folder / "network.py"
    file = TINY.rpartition(":")[0]
    network.write_text(
        f"exec(open({file!r}).read())\nof_catalogs = tiny\n\n\ndef tiny():\n    network = of_catalogs()\n"
        "    network[0].bias.data += 1.0\n    return network\n"
    )
    return [str(made_catalog(tmp_path_factory.mktemp(name), name, COSTS, f"{network}:tiny").path) for name in MODELS]


def test_other_weights_of_the_same_name_do_not_serve(
    robot: Any, nodes: NodeGroup, of_other_weights: list[str], station: Any, film: Any
) -> None:
    """Models were once told apart by their names alone: answers of the wrong one would have gone unnoticed."""
    before = len(robot.output)
    parameters = {"model": OTHER, "input_size": "61x47", "catalogs": of_other_weights, "threads": 1}
    server = nodes.start(NodeCommand(executable="server", parameters=parameters))
    server.wait_ready(START_S)
    film(lambda results: "has catalogs of" in robot.output[before:])
    results = film(all_from("local"))
    assert not any(result.error for result in results)
    assert server.stop() == 0
