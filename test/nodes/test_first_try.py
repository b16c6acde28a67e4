# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""A new user's first steps in real processes: any camera is received, Ctrl-C is quiet, modes and maps agree."""

# ruff: noqa: E402  the tests are skipped before the imports that need ROS

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

rclpy = pytest.importorskip("rclpy", reason="needs ROS 2")

from forked_nodes import ForkedGroup, NodeFork
from rclpy.qos import QoSProfile, QoSReliabilityPolicy

from cacheinf_ros.fast_dds import RECEIVE_BUFFER_BYTES
from cacheinf_ros.harness import NodeCommand, NodeGroup
from cacheinf_ros.pipeline.polling import wait_until

MS = 1_000_000
FRAMES = 60
DEADLINE_S = 90.0
JUDGED_S = 5.0
"""How long a trial's result may be told before a calibration that it leads to."""
LARGEST_BUFFER = Path("/proc/sys/net/core/rmem_max")


def needs_large_buffer() -> None:
    if not LARGEST_BUFFER.is_file() or int(LARGEST_BUFFER.read_text()) < RECEIVE_BUFFER_BYTES:
        pytest.skip(f"net.core.rmem_max is below {RECEIVE_BUFFER_BYTES}: best-effort images of others do not fit")


@pytest.fixture
def own_nodes(domain: int, node_fork: NodeFork, tmp_path: Path) -> Iterator[NodeGroup]:
    with ForkedGroup(node_fork, tmp_path / "nodes", domain=domain) as group:
        yield group


@pytest.mark.parametrize("size", [(480, 640), (1080, 1920)])
@pytest.mark.parametrize("reliability", [QoSReliabilityPolicy.RELIABLE, QoSReliabilityPolicy.BEST_EFFORT])
def test_every_raw_frame_of_a_plain_camera_arrives(
    own_nodes: NodeGroup,
    station: Any,
    inference_command: Callable[..., NodeCommand],
    size: tuple[int, int],
    reliability: QoSReliabilityPolicy,
) -> None:
    """The camera is a publisher of this process, which knows nothing of Fast DDS profiles."""
    if reliability is QoSReliabilityPolicy.BEST_EFFORT:
        needs_large_buffer()
    topic = f"camera/{reliability.name.lower()}_{size[0]}"
    camera = station.node.create_publisher(image_type(), topic, QoSProfile(depth=5, reliability=reliability))
    # no parameter but the topic: this is about the defaults
    command = NodeCommand(executable="cached_inference", parameters={"image_topic": topic, "threads": 1})
    node = own_nodes.start(command)
    node.wait_ready(DEADLINE_S)
    assert wait_until(lambda: camera.get_subscription_count() == 1, DEADLINE_S)
    time.sleep(0.5)  # a subscriber may learn of us later than we of it
    for i in range(FRAMES):
        camera.publish(raw_image((i + 1) * 100 * MS, size))
        time.sleep(0.1)
    arrived = wait_until(lambda: int(station.said("cached_inference").get("received", 0)) >= FRAMES, 5.0)
    said = station.said("cached_inference")
    assert arrived, said
    assert (said["lost"], said["missing"]) == ("0", "0")
    assert said["image_reliability"] == reliability.name.lower()
    station.node.destroy_publisher(camera)
    assert node.stop() == 0


def test_lost_frames_are_told_with_a_remedy(
    own_nodes: NodeGroup, station: Any, inference_command: Callable[..., NodeCommand], camera_image: Callable[..., Any]
) -> None:
    node = own_nodes.start(inference_command("cached_inference"))
    node.wait_ready(DEADLINE_S)
    station.wait_for_nodes(camera_image(0), subscribers=1)
    stamps = [i * 100 * MS for i in range(1, 168) if i % 16]  # a camera that loses every sixteenth frame
    for stamp in stamps:
        station.publish(camera_image(stamp))
    station.expect(len(stamps))
    assert wait_until(lambda: station.said("cached_inference").get("missing") == "10", DEADLINE_S)
    status = station.diagnostics["cached_inference"]
    assert status.level == b"\x01"
    assert "lost" in status.message
    assert node.output.count("sysctl") == 1


def test_ctrl_c_while_calibrating(
    own_nodes: NodeGroup, station: Any, inference_command: Callable[..., NodeCommand], camera_image: Callable[..., Any]
) -> None:
    """A calibration runs in a thread of its own, mostly inside kernels.

    Noise allows no reuse, so that the engine takes longer than a dense backend, and thresholds might help. On a busy
    machine a trial may find it far slower, or faster: then the next is long in coming, and another node has its first.
    """
    stamps = itertools.count(50 * MS, 50 * MS)
    for _ in range(4):
        node = own_nodes.start(inference_command("cached_inference", mode="bounded", model="scenenet"))
        node.wait_ready(DEADLINE_S)
        station.wait_for_nodes(camera_image(0), subscribers=1)
        deadline, said = time.monotonic() + DEADLINE_S, {}
        while "calibration" not in said and not ("cached_engine" in said and time.monotonic() > deadline):
            station.answer(camera_image(next(stamps), size=(240, 320), seed=next(stamps)))
            said = station.said("cached_inference")
            if "cached_engine" in said:
                deadline = min(deadline, time.monotonic() + JUDGED_S)
            assert time.monotonic() < deadline + JUDGED_S, said
        while said.get("calibration", "").startswith("collecting"):
            station.answer(camera_image(next(stamps), size=(240, 320), seed=next(stamps)))
            said = station.said("cached_inference")
        assert node.stop() == 0
        assert "Traceback" not in node.output
        if said.get("calibration") == "running":
            return
    pytest.fail(f"no trial wanted thresholds: {said}")


def test_ctrl_c_while_a_dense_backend_is_prepared(
    own_nodes: NodeGroup, station: Any, inference_command: Callable[..., NodeCommand], camera_image: Callable[..., Any]
) -> None:
    """Models are exported for other engines in a thread of its own, which cannot be interrupted."""
    node = own_nodes.start(inference_command("cached_inference", mode="bounded", model="scenenet", input_size="96x160"))
    node.wait_ready(DEADLINE_S)
    station.wait_for_nodes(camera_image(0), subscribers=1)
    station.publish(camera_image(50 * MS, size=(240, 320)))
    station.wait_for_results(1)
    assert node.stop() == 0
    assert "Traceback" not in node.output


@pytest.mark.parametrize("executable", ["cached_inference", "matcher", "replay"])
def test_ctrl_c_at_any_moment_of_the_start(new_nodes: NodeGroup, executable: str) -> None:
    command = NodeCommand(executable=executable, parameters={"loop": True} if executable == "replay" else {})
    seed = random.randrange(2**32)
    moments = random.Random(seed)
    for _ in range(4):
        node = new_nodes.start(command)
        time.sleep(moments.uniform(0.4, 5.0))  # before, on a busy machine, the interpreter itself may not be up
        assert node.stop() == 0, (seed, node.output)
        assert "Traceback" not in node.output, (seed, node.output)


def test_the_matcher_looks_for_no_motion_that_the_engine_cannot_follow(
    own_nodes: NodeGroup, station: Any, inference_command: Callable[..., NodeCommand], camera_image: Callable[..., Any]
) -> None:
    matcher = own_nodes.start(
        NodeCommand(executable="matcher", parameters={"image_topic": "camera/image", "matcher": "auto"})
    )
    inference = own_nodes.start(inference_command("inference", mode="exact", map_timeout_ms=5000.0))
    for process in (matcher, inference):
        process.wait_ready(DEADLINE_S)
    station.wait_for_nodes(camera_image(0), subscribers=2)
    assert wait_until(lambda: station.said("matcher").get("engine_mode") == "exact", DEADLINE_S)
    world = np.kron(np.random.default_rng(0).integers(0, 256, (60, 120, 3), np.uint8), np.ones((4, 4, 1), np.uint8))
    stamps = iter(range(100 * MS, 100_000 * MS, 100 * MS))

    def pan(frames: int) -> list[np.ndarray[Any, Any]]:
        station.clear()
        for i in range(frames):
            station.publish(raw_image(next(stamps), (240, 320), world[:, 2 * i : 2 * i + 320]))
            assert wait_until(lambda wanted=i + 1: len(station.results) == wanted, DEADLINE_S)  # type: ignore[misc]
        return [np.asarray(message.motion).reshape(3, 3) for message in station.maps]

    assert all(np.array_equal(motion, np.eye(3)) for motion in pan(40))
    assert station.set_parameters("inference", mode="bounded")[0][0].successful
    pan(1)  # the mode is told with the next frame
    assert wait_until(lambda: station.said("matcher").get("engine_mode") == "bounded", DEADLINE_S)
    assert "camera moves" not in inference.output
    assert [matcher.stop(), inference.stop()] == [0, 0]


def test_a_half_broken_cv_bridge_is_left_alone(
    own_nodes: NodeGroup,
    station: Any,
    inference_command: Callable[..., NodeCommand],
    camera_image: Callable[..., Any],
    tmp_path: Path,
) -> None:
    """The Python part of such a cv_bridge imports, but its C++ module was built for another numpy."""
    folder = tmp_path / "cv_bridge"
    folder.mkdir()
    (folder / "__init__.py").write_text(
        "class CvBridgeError(TypeError): pass\n"
        "class CvBridge:\n"
        "    def imgmsg_to_cv2(self, *arguments, **keywords):\n"
        "        raise ImportError('numpy.core.multiarray failed to import')\n"
    )
    command = inference_command("cached_inference")
    broken = NodeCommand(
        executable="cached_inference", parameters=command.parameters, environment={"PYTHONPATH": str(tmp_path)}
    )
    node = own_nodes.start(broken)
    node.wait_ready(DEADLINE_S)
    station.wait_for_nodes(camera_image(0), subscribers=1)
    station.publish(*(camera_image((i + 1) * 100 * MS, "rgb8") for i in range(3)))
    assert not any(result.error for result in station.expect(3))
    assert node.stop() == 0
    assert "Traceback" not in node.output


def image_type() -> type[Any]:
    from sensor_msgs.msg import Image

    return Image


def raw_image(stamp_ns: int, size: tuple[int, int], picture: Any = None) -> Any:
    from image_messages import image_message
    from std_msgs.msg import Header

    from cacheinf_ros.nodes.conversions import time_message

    picture = np.full((*size, 3), 99, np.uint8) if picture is None else np.ascontiguousarray(picture)
    return image_message(Header(stamp=time_message(stamp_ns), frame_id="camera"), picture)
