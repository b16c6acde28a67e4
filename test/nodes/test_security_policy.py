# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The policy for SROS2 allows each node the topics and services that it has, and nothing else.

The middleware in the wheels enforces no policy: the policy is compared with the topics and services of running nodes.
"""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any
from xml.etree import ElementInclude, ElementTree

import pytest
from catalogs import TINY, two_catalogs

from cacheinf_ros.catalog.variant import Cost, Place
from cacheinf_ros.harness import NodeCommand
from cacheinf_ros.harness.start_node import EXECUTABLES
from cacheinf_ros.pipeline.polling import wait_until

pytest.importorskip("rclpy", reason="needs ROS 2")

import rclpy
from rclpy.node import NodeNameNonExistentError

from cacheinf_ros.nodes.vision_messages import HAS_VISION_MSGS

FOLDER = Path(__file__).parents[2] / "config" / "security"
ENCLAVES = "/cacheinf_ros"
DEADLINE_S = 60.0

Names = set[tuple[str, str]]
"""The actions (publish, subscribe, reply or request) and their topics or services; in a policy with wildcards."""

COMPRESSED = ("subscribe", "/camera/image/compressed")  # with image_transport: compressed, in place of the raw images
BOTH = ("subscribe", "/side_by_side/image")  # with image_topic: side_by_side/image, in place of the camera's
GATEWAY = ("publish", "/frame_shares/*")  # where a fleet computes, which takes Ray
VISION = () if HAS_VISION_MSGS else ("classification", "detections", "label_info", "vision_info")


def of_results(node: str) -> Names:
    return {COMPRESSED, BOTH, GATEWAY, *(("publish", f"/{node}/{topic}") for topic in VISION)}


NOT_STARTED_HERE: dict[str, Names] = {
    "matcher": {COMPRESSED, BOTH},
    "side_by_side": {COMPRESSED, ("subscribe", "/camera/right/image/compressed")},
    "inference": of_results("inference"),
    "cached_inference": of_results("cached_inference"),
    "catalog_inference": {COMPRESSED, GATEWAY},
    "server": {("subscribe", "/frame_shares/*")},
    "replay": {("publish", "/camera/image/compressed"), ("subscribe", "/diagnostics")},
}
"""What each node is allowed although it only has it with other parameters or packages than in these tests."""


def profiles(enclave: str) -> dict[str, Names]:
    """Return what an enclave may do, by the full name of the node."""
    policy = ElementTree.parse(FOLDER / "policy.xml").getroot()
    ElementInclude.include(policy, base_url=str(FOLDER / "policy.xml"))
    (found,) = policy.findall(f"enclaves/enclave[@path='{ENCLAVES}/{enclave}']")
    return {
        f"{profile.attrib['ns']}{profile.attrib['node']}": set(_expressions(profile))
        for profile in found.iterfind("profiles/profile")
    }


def _expressions(profile: ElementTree.Element) -> Iterator[tuple[str, str]]:
    """Yield what a profile allows, with names completed as sros2 does.

    ~ stands for the node's own name, and names without a slash are prefixed by its namespace.
    """
    namespace = profile.attrib["ns"]
    for names in profile:
        for action, answer in names.attrib.items():
            assert answer == "ALLOW" or action.endswith("}base")
            for each in names if answer == "ALLOW" else ():
                name = str(each.text)
                if name.startswith("~"):
                    name = f"{namespace}{profile.attrib['node']}{name[1:]}"
                yield action, name if name.startswith("/") else f"{namespace}{name}"


def allowed(enclave: str) -> Names:
    (profile,) = profiles(enclave).values()
    return profile


def had(station: Any, name: str) -> Names:
    """Return the topics and services that a node has, as far as the station's graph knows."""
    graph = station.node
    kinds = {
        "publish": graph.get_publisher_names_and_types_by_node,
        "subscribe": graph.get_subscriber_names_and_types_by_node,
        "reply": graph.get_service_names_and_types_by_node,
        "request": graph.get_client_names_and_types_by_node,
    }
    try:
        return {(kind, topic) for kind, names in kinds.items() for topic, _ in names(name, "/")}
    except NodeNameNonExistentError:
        return set()


def is_in(name: tuple[str, str], expressions: Names) -> bool:
    return any(name[0] == action and fnmatchcase(name[1], pattern) for action, pattern in expressions)


def unused(expressions: Names, names: Names) -> Names:
    return {each for each in expressions if not any(is_in(name, {each}) for name in names)}


@pytest.fixture(scope="module")
def _all_nodes(nodes: Any, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Start all nodes with all topics and services that they can have.

    Replay plays the camera; its first image makes a catalog's node greet the server.
    """
    everywhere = dict.fromkeys(Place, Cost(energy_j=1.0, money=1.0, memory_bytes=10_000))
    robot = {"use_sim_time": True, "threads": 1, "server.use": True, "server.probe_s": 0.2}
    catalogs = {"catalogs": two_catalogs(tmp_path_factory, everywhere)}
    parameters: dict[str, dict[str, Any]] = {
        "matcher": {"use_sim_time": True},
        "side_by_side": {"use_sim_time": True},
        "inference": {"model": TINY, **robot},
        "cached_inference": {"model": TINY, **robot},
        "catalog_inference": {**catalogs, **robot, "policy": "server_first", "specialise_together": True},
        "server": {"use_sim_time": True, "model": TINY, "threads": 1},
        "replay": {"use_sim_time": True, "publish_clock": True, "rate": 5.0, "loop": True},
    }
    started = [nodes.start(NodeCommand(executable=name, parameters=values)) for name, values in parameters.items()]
    for node in started:
        node.wait_ready(DEADLINE_S)


@pytest.mark.usefixtures("_all_nodes")
@pytest.mark.parametrize("name", EXECUTABLES)
def test_a_node_is_allowed_what_it_has_and_nothing_else(name: str, shared_station: Any) -> None:
    policy = allowed(name)
    wanted = policy - NOT_STARTED_HERE[name]
    assert NOT_STARTED_HERE[name] < policy
    wait_until(lambda: not unused(wanted, had(shared_station, name)), DEADLINE_S)  # sessions begin later than nodes
    has = had(shared_station, name)
    assert not unused(wanted, has), f"allowed to {name}, which does not have it"
    refused = {each for each in has if not is_in(each, policy)}
    assert not refused, f"{name} has it, and would not start with the policy enforced"


def test_there_is_an_enclave_for_each_executable_and_for_people() -> None:
    policy = ElementTree.parse(FOLDER / "policy.xml").getroot()
    assert policy.attrib["version"] == "0.2.0"
    paths = [enclave.attrib["path"] for enclave in policy.iterfind("enclaves/enclave")]
    assert sorted(paths) == sorted(f"{ENCLAVES}/{name}" for name in (*EXECUTABLES, "viewer", "operator"))


def test_no_comment_stands_among_enclaves() -> None:
    """The official tool for keys and permissions takes a comment for an enclave without a name, and fails."""
    parser = ElementTree.XMLParser(target=ElementTree.TreeBuilder(insert_comments=True))
    (enclaves,) = ElementTree.parse(FOLDER / "policy.xml", parser).iterfind("enclaves")
    assert {each.tag for each in enclaves} == {"enclave"}


def test_only_the_server_answers_robots_and_no_node_of_ours_asks_another() -> None:
    may = {name: allowed(name) for name in EXECUTABLES}
    assert [name for name in EXECUTABLES if is_in(("publish", "/frame_shared/robot_1"), may[name])] == ["server"]
    assert not [name for name in EXECUTABLES if any(action == "request" for action, _ in may[name])]
    for people in ("viewer", "operator"):
        for names in profiles(people).values():
            assert not any(is_in((action, "/frame_shared/robot_1"), names) for action in ("publish", "subscribe"))
            assert not is_in(("publish", "/frame_shares"), names)


def test_a_viewer_sees_what_nodes_publish_and_changes_nothing() -> None:
    """An operator sees the same as a viewer, and may call each service of each node."""
    topics = {name for node in EXECUTABLES for action, name in allowed(node) if action == "publish"}
    services = {name for node in EXECUTABLES for action, name in allowed(node) if action == "reply"}
    between = {"/frame_shares", "/frame_shares/*", "/frame_shared/*"}
    for enclave in ("viewer", "operator"):
        may: Names = set.union(*profiles(enclave).values())
        assert {topic for topic in topics if not is_in(("subscribe", topic), may)} == between
        asks = {service for service in services if is_in(("request", service), may)}
        assert asks == (services if enclave == "operator" else set())
        published = {("subscribe", topic) for topic in topics} | {("request", service) for service in services}
        assert not unused({each for each in may if each[0] in ("subscribe", "request")}, published)
        assert {name for action, name in may if action == "publish"} == {"/rosout", "/parameter_events"}


@pytest.mark.parametrize("name", ["_ros2cli_1", "rqt_gui_py_node_1"])
def test_tools_are_allowed_what_each_node_of_theirs_has(name: str, shared_station: Any) -> None:
    node = rclpy.create_node(
        name, context=shared_station.node.context, start_parameter_services=not name.startswith("_")
    )
    try:
        assert wait_until(lambda: ("publish", "/rosout") in had(shared_station, name), DEADLINE_S)
        for enclave in ("viewer", "operator"):
            may: Names = set.union(*profiles(enclave).values())
            assert not {each for each in had(shared_station, name) if not is_in(each, may)}
    finally:
        node.destroy_node()


def test_each_file_of_the_folder_is_used() -> None:
    text = (FOLDER / "policy.xml").read_text()
    assert {file.name for file in FOLDER.iterdir() if f'href="{file.name}"' not in text} == {"policy.xml"}
