# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Inactive nodes receive nothing, say so, and begin anew with a whole frame when they are activated."""

from __future__ import annotations

import os
import weakref
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from catalogs import catalog_command, two_catalogs

from cacheinf_ros.catalog.variant import Cost, Place
from cacheinf_ros.errors import ConfigError
from cacheinf_ros.harness import NodeCommand
from cacheinf_ros.pipeline.polling import wait_until

pytest.importorskip("rclpy", reason="needs ROS 2")

from builtin_interfaces.msg import Time
from lifecycle_msgs.msg import Transition
from lifecycle_msgs.srv import ChangeState, GetState
from nodes.broken_node import CLUMSY, broken_command
from rclpy.executors import SingleThreadedExecutor
from rclpy.parameter import Parameter
from rosgraph_msgs.msg import Clock
from std_srvs.srv import SetBool

from cacheinf_ros.nodes.managed_node import ManagedNode, Standing

DEADLINE_S = 60.0
STEP_NS = 100_000_000
OK, ERROR = b"\0", b"\2"


class Managed:
    """A node's services, as ``ros2 lifecycle`` uses them."""

    def __init__(self, station: Any, node: str) -> None:
        self._station, self._node = station, node

    def enable(self, wanted: bool) -> tuple[bool, str]:
        answer = self._station.ask(f"{self._node}/enable", SetBool, data=wanted)
        return answer.success, answer.message

    def change(self, transition: str) -> str:
        """Request a transition; returns the state after it, not its success, as a lost reply makes it repeat."""
        self._station.ask(f"{self._node}/change_state", ChangeState, transition=Transition(label=transition))
        return self.state

    def report(self) -> Any:
        """Return the node's next status in /diagnostics."""
        self._station.diagnostics.clear()
        assert wait_until(lambda: self._node in self._station.diagnostics, DEADLINE_S)
        return self._station.diagnostics[self._node]

    @property
    def state(self) -> str:
        return str(self._station.ask(f"{self._node}/get_state", GetState).current_state.label)


def test_a_disabled_node_receives_nothing_and_begins_anew(rig: Any) -> None:
    node = rig.nodes.start(rig.command("cached_inference", mode="exact", threshold=100.0))
    node.wait_ready()
    station, managed = rig.station, Managed(rig.station, "cached_inference")
    same = [rig.image(10**9 + i * STEP_NS) for i in range(5)]
    station.wait_for_nodes(same[0], subscribers=1)
    assert [station.answer(image).mode for image in same[:2]] == ["dense", "exact"]

    assert managed.enable(False) == (True, "inactive: frames are ignored until it is activated or enabled")
    assert managed.enable(False)[0]
    assert managed.state == "inactive"
    assert wait_until(lambda: station.camera(same[0]).get_subscription_count() == 0, DEADLINE_S)
    status = managed.report()
    assert (status.level, status.message.split(":")[0]) == (OK, "inactive")
    station.publish(same[2])
    station.expect(2)

    assert managed.enable(True) == (True, "active")
    station.wait_for_nodes(same[0], subscribers=1)
    assert [station.answer(image).mode for image in same[3:]] == ["dense", "exact"]
    assert station.diagnostics["cached_inference"].level == OK
    assert node.stop() == 0


@pytest.fixture(scope="module")
def catalogs(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    return two_catalogs(tmp_path_factory, {Place.DEVICE: Cost(energy_j=1.0, memory_bytes=10_000)})


def test_a_node_put_to_rest_finishes_its_frame_and_says_where_it_could_not(rig: Any) -> None:
    parameters = {"image_topic": "camera/image", "image_reliability": "reliable"}
    environment = {"PYTHONPATH": f"{Path(__file__).parents[1]}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"}
    node = rig.nodes.start(NodeCommand(executable="nodes.slow_node", parameters=parameters, environment=environment))
    node.wait_ready()
    station, managed = rig.station, Managed(rig.station, "slow")
    camera = station.camera(rig.image(0))

    def begin_one_and_let_another_wait(seconds: int) -> None:
        assert wait_until(lambda: camera.get_subscription_count() == 1, DEADLINE_S)
        received = int(station.said("slow")["received"])
        station.publish(rig.image(seconds * 10**9))
        assert wait_until(lambda: f"begun {seconds}" in node.output, DEADLINE_S)
        station.publish(rig.image(seconds * 10**9 + 1))
        assert wait_until(lambda: int(station.said("slow")["received"]) == received + 2, DEADLINE_S)

    assert wait_until(lambda: "slow" in station.diagnostics, DEADLINE_S)
    begin_one_and_let_another_wait(seconds=7)
    assert managed.enable(False)[0]
    assert "finished 7" in node.output
    assert "not finished" not in node.output
    assert wait_until(lambda: station.said("slow")["dropped"] == "1", DEADLINE_S)

    assert managed.enable(True)[0]
    begin_one_and_let_another_wait(seconds=60)
    assert node.stop() == 0
    assert node.output.count("the frame at hand was not finished in 3 s: its result may never come") == 1


@pytest.mark.parametrize("executable", ["matcher", "inference", "cached_inference", "catalog_inference", "server"])
def test_a_node_may_go_round_all_states(rig: Any, executable: str, catalogs: list[str]) -> None:
    command = rig.command(executable, autostart=False, **{"server.use": executable == "cached_inference"})
    if executable == "catalog_inference":
        command = catalog_command(catalogs, autostart=False)
    node = rig.nodes.start(command)
    managed = Managed(rig.station, executable)
    assert managed.state == "unconfigured"
    for transition, state in (
        ("configure", "inactive"),
        ("activate", "active"),
        ("deactivate", "inactive"),
        ("activate", "active"),
        ("deactivate", "inactive"),
        ("cleanup", "unconfigured"),
    ):
        assert managed.change(transition) == state, node.output
    status = managed.report()  # asks nothing of publishers that are destroyed
    assert (status.level, status.message.split(":")[0]) == (OK, "unconfigured"), node.output
    assert managed.enable(True) == (True, "active")
    assert managed.change("shutdown") == "finalized"
    assert not managed.enable(True)[0]
    assert node.stop() == 0
    assert "Traceback" not in node.output


@pytest.mark.parametrize("state", ["inactive", "active"])
def test_the_clock_goes_on_after_clean_up(context: Any, state: str) -> None:
    """Where ``use_sim_time`` was set meanwhile, cleaning up took the subscription to /clock: time stood still."""
    apart = ["--ros-args", "-r", "/clock:=/test_lifecycle/clock"]  # from the clock of anything else that runs here
    node = ManagedNode("clocked", context=context, cli_args=apart)
    sim_clock = node.create_publisher(Clock, "/clock", 10)
    executor = SingleThreadedExecutor(context=context)
    executor.add_node(node)
    node.trigger_configure()
    if state == "active":
        node.trigger_activate()
    node.set_parameters([Parameter("use_sim_time", value=True)])
    if state == "active":
        node.trigger_deactivate()
    node.trigger_cleanup()
    assert node.standing is Standing.UNCONFIGURED

    def follows(now_s: int) -> bool:
        sim_clock.publish(Clock(clock=Time(sec=now_s)))
        executor.spin_once(timeout_sec=0.1)
        return node.get_clock().now().nanoseconds == now_s * 10**9

    assert wait_until(lambda: follows(7), DEADLINE_S) and wait_until(lambda: follows(9), DEADLINE_S)
    node.set_parameters([Parameter("use_sim_time", value=False)])
    assert node.get_clock().now().nanoseconds > 10**18
    executor.shutdown()
    node.destroy_node()


def test_what_cannot_be_configured_says_why_and_stays(rig: Any, tmp_path: Path) -> None:
    late = tmp_path / "late.py"
    node = rig.nodes.start(rig.command("cached_inference", model=f"{late}:tiny", autostart=False))
    managed = Managed(rig.station, "cached_inference")
    success, message = managed.enable(True)
    assert not success and str(late) in message
    assert managed.state == "unconfigured"
    status = managed.report()
    assert status.level == ERROR and str(late) in status.message
    late.write_text((Path(__file__).parents[1] / "networks" / "tiny.py").read_text())
    assert managed.enable(True) == (True, "active")
    assert managed.report().level == OK
    assert node.stop() == 0


class Greedy(ManagedNode):
    """A node that loads something large, and then finds that it cannot be configured.

    Attributes:
        loaded: refers to that as long as it is in memory.
    """

    def configure(self) -> None:
        large = np.zeros(10)
        self.loaded = weakref.ref(large)
        try:
            raise KeyError("persn")
        except KeyError as error:
            raise ConfigError("the model knows no 'persn'") from error


def test_what_was_loaded_in_vain_is_freed(context: Any) -> None:
    """The error that the node remembers referred to the frames that it had passed, and these to the model."""
    node = Greedy("greedy", context=context)
    node.trigger_configure()
    assert node.standing is Standing.UNCONFIGURED and "persn" in node._failure_told
    assert node.loaded() is None
    node.destroy_node()


def test_a_bug_in_a_transition_is_reported_until_the_user_wants_rest(rig: Any) -> None:
    """The camera's subscription is destroyed by then, but the count of its publishers is still asked for."""
    node = rig.nodes.start(broken_command(CLUMSY, autostart=False))
    managed = Managed(rig.station, CLUMSY)
    assert managed.report().level == OK
    success, message = managed.enable(True)
    assert not success and "stumbled" in message
    for _ in range(2):
        status = managed.report()
        assert status.level == ERROR and "stumbled" in status.message and "unconfigured" in status.message
        assert rig.station.said(CLUMSY)["image_publishers"] == "n/a"
    assert managed.enable(False)[0]
    assert managed.report().level == OK
    assert node.stop() == 0
    assert node.output.count("image_publishers cannot be counted") == 1


def test_a_servers_topic_that_is_another_one_for_each_camera_is_refused(rig: Any) -> None:
    command = rig.command("cached_inference", **{"server.use": True, "server.share_topic": "server/frame_shares"})
    node = rig.nodes.start(replace(command, cameras=("/front/image_raw", "/left/image_raw")))
    assert node.wait(DEADLINE_S) == 2
    assert "with a leading slash, such as /frame_shares" in node.output


def test_each_camera_has_a_node_in_the_namespace_of_its_topic(rig: Any) -> None:
    topics = ("/front/image_raw", "/left/image_raw")
    node = rig.nodes.start(replace(rig.command("cached_inference"), cameras=topics))
    node.wait_ready()
    station = rig.station
    states = [Managed(station, f"{name}/cached_inference") for name in ("front", "left")]
    assert [each.state for each in states] == ["active"] * 2
    assert states[0].enable(False)[0]
    assert [each.state for each in states] == ["inactive", "active"]
    assert wait_until(lambda: station.node.count_subscribers(topics[1]) == 1, DEADLINE_S)
    assert wait_until(lambda: station.node.count_subscribers(topics[0]) == 0, DEADLINE_S)
    reports = [each.report() for each in states]
    assert [report.hardware_id for report in reports] == list(topics)
    assert node.stop() == 0
