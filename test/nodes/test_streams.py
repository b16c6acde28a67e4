# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""In all kinds of camera streams every accepted frame has one result with its header, in one process and in two."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rosbags.rosbag2 import Reader, Writer
from rosbags.typesys import Stores, get_typestore

from cacheinf_ros.harness import NodeCommand, NodeGroup
from cacheinf_ros.pipeline.polling import wait_until

MS = 1_000_000
LOSSLESS = {"queue_size": 1000, "expiry": 10_000, "image_reliability": "reliable", "image_topic": "camera/image"}


@pytest.fixture(scope="module", params=["one process", "two processes"])
def arrangement(
    request: pytest.FixtureRequest, nodes: NodeGroup, inference_command: Callable[..., NodeCommand]
) -> Iterator[str]:
    matcher = NodeCommand(executable="matcher", parameters=LOSSLESS)
    # a map that is late because the machine is busy must not make the two arrangements differ
    commands = {
        "one process": [inference_command("cached_inference")],
        "two processes": [matcher, inference_command("inference", map_timeout_ms=5000.0)],
    }[request.param]
    processes = [nodes.start(command) for command in commands]
    for process in processes:
        process.wait_ready()
    yield request.param
    assert [process.stop() for process in processes] == [0] * len(processes)
    assert not any("Traceback" in process.output for process in processes)


@pytest.fixture(scope="module")
def stamps() -> Iterator[int]:
    """Return stamps that increase from test to test, like a camera's."""
    return iter(range(10_000 * MS, 10_000_000 * MS, 33 * MS))


@pytest.fixture
def listening(station: Any, arrangement: str, stamps: Iterator[int], camera_image: Callable[..., Any]) -> Any:
    """Return the station once all nodes know each other: DDS may introduce matcher and inference seconds late."""
    station.wait_for_nodes(camera_image(0), subscribers=2 if arrangement == "two processes" else 1)

    def reuses_what_it_saw() -> bool:
        image = camera_image(next(stamps), seed=999)
        station.publish(image)
        answered = wait_until(lambda: station.results and station.results[-1].header == image.header, 6.0)
        return answered and station.results[-1].reuse_ratio == 1.0

    assert wait_until(reuses_what_it_saw, 60.0)
    station.clear()
    return station


def headers(messages: list[Any]) -> list[tuple[int, int, str]]:
    return [(m.header.stamp.sec, m.header.stamp.nanosec, m.header.frame_id) for m in messages]


def recorded(path: Path, messages: list[Any]) -> list[bytes]:
    """Return the serialized messages as a bag gives them back."""
    from rclpy.serialization import serialize_message

    store = get_typestore(Stores.ROS2_JAZZY)
    with Writer(path, version=9) as writer:
        connection = writer.add_connection("/camera/image", "sensor_msgs/msg/Image", typestore=store)
        for i, message in enumerate(messages):
            writer.write(connection, i, serialize_message(message))
    with Reader(path) as reader:
        return [raw for _, _, raw in reader.messages()]


@pytest.mark.parametrize("encoding", ["bgr8", "rgb8", "mono8"])
def test_a_recorded_bag_yields_one_result_per_frame(
    listening: Any, stamps: Iterator[int], camera_image: Callable[..., Any], encoding: str, tmp_path: Path
) -> None:
    messages = [camera_image(next(stamps), encoding, seed=i // 3) for i in range(12)]
    for raw in recorded(tmp_path / "bag", messages):
        listening.camera(messages[0]).publish(raw)
    results = listening.expect(12)
    assert headers(results) == headers(messages)
    assert not any(result.error for result in results)
    assert [round(result.reuse_ratio, 3) for result in results[1:3]] == [1.0, 1.0]


def test_a_looping_bag_drops_the_cache(listening: Any, stamps: Iterator[int], camera_image: Callable[..., Any]) -> None:
    messages = [camera_image(next(stamps)) for _ in range(4)]
    listening.publish(*messages)
    listening.expect(4)
    for message in messages:  # maps that overtake the frame at which time goes back are dropped: no burst here
        listening.answer(message)
    results = listening.expect(8)
    assert headers(results) == headers(messages) * 2
    assert results[4].reuse_ratio == 0.0
    assert results[1].reuse_ratio == pytest.approx(1.0)
    next_image = camera_image(next(stamps))
    listening.publish(next_image)
    assert listening.expect(9)[8].reuse_ratio == pytest.approx(1.0)


def test_stamps_that_do_not_increase_are_one_warning_and_a_count(
    listening: Any, arrangement: str, stamps: Iterator[int], camera_image: Callable[..., Any]
) -> None:
    """A driver may leave stamps at 0: each frame then looks like the start of a bag, and nothing is reused."""
    from rcl_interfaces.msg import Log

    from cacheinf_ros.nodes.topics import profile

    node = "inference" if arrangement == "two processes" else "cached_inference"
    logged: list[Any] = []
    listening.node.create_subscription(Log, "/rosout", logged.append, profile(1000, latched=True))
    warning = "stamps of /camera/image do not increase: nothing is reused; is /clock published?"

    def warnings() -> int:
        return sum(line.name == node and line.msg.startswith(warning) for line in list(logged))

    def counted() -> int:
        return int(listening.said(node).get("unordered", 0))

    before, still = counted(), [camera_image(0) for _ in range(6)]
    for image in still:
        listening.answer(image)
    results = listening.expect(6)
    assert [result.reuse_ratio for result in results] == [0.0] * 6
    assert wait_until(lambda: counted() >= before + 3, 10.0)
    assert wait_until(lambda: warnings() > 0, 10.0)
    assert warnings() == 1
    listening.publish(camera_image(next(stamps)), camera_image(next(stamps)))
    assert listening.expect(8)[7].reuse_ratio == pytest.approx(1.0)


def test_the_image_size_may_change(listening: Any, stamps: Iterator[int], camera_image: Callable[..., Any]) -> None:
    sizes = [(48, 64)] * 2 + [(60, 80)] * 2 + [(48, 64)] * 2
    messages = [camera_image(next(stamps), size=size) for size in sizes]
    listening.publish(*messages)
    results = listening.expect(6)
    assert headers(results) == headers(messages)
    assert not any(result.error for result in results)
    assert [result.reuse_ratio > 0.5 for result in results[2:]] == [False, True, False, True]


def test_a_paused_stream_goes_on(listening: Any, stamps: Iterator[int], camera_image: Callable[..., Any]) -> None:
    first, second = ([camera_image(next(stamps)) for _ in range(3)] for _ in range(2))
    listening.publish(*first)
    listening.expect(3)
    listening.diagnostics.clear()
    assert wait_until(lambda: len(listening.diagnostics) > 0, 10.0)
    listening.publish(*second)
    assert headers(listening.expect(6)) == headers([*first, *second])


@pytest.mark.parametrize(
    "spoilt",
    [
        {"encoding": "no such encoding"},
        {"step": 1},
        {"data": b""},
        {"height": 2**20, "width": 2**20, "step": 3 * 2**20},  # a terabyte
    ],
)
def test_a_corrupt_image_yields_an_error_result_and_the_node_lives(
    listening: Any, stamps: Iterator[int], camera_image: Callable[..., Any], spoilt: dict[str, Any]
) -> None:
    messages = [camera_image(next(stamps)) for _ in range(3)]
    for name, value in spoilt.items():
        setattr(messages[1], name, value)
    listening.publish(*messages)
    results = listening.expect(3)
    assert headers(results) == headers(messages)
    assert [bool(result.error) for result in results] == [False, True, False]
    assert results[2].reuse_ratio == pytest.approx(1.0)


def test_the_class_vector_is_decoded(listening: Any, stamps: Iterator[int], camera_image: Callable[..., Any]) -> None:
    from cacheinf_ros.nodes.results import outputs_from

    listening.publish(camera_image(next(stamps)))
    result = listening.expect(1)[0]
    (output,) = outputs_from(result).values()
    assert output.shape == (1, 5)
    assert result.class_ids[0] == int(np.argmax(output))
    assert result.where == "local"


def test_the_overlay_is_drawn_for_those_who_look(
    listening: Any, arrangement: str, stamps: Iterator[int], camera_image: Callable[..., Any]
) -> None:
    from sensor_msgs.msg import Image

    pictures: list[Any] = []
    names = ["matcher", "inference"] if arrangement == "two processes" else ["cached_inference"]
    looking = [listening.node.create_subscription(Image, f"{name}/overlay", pictures.append, 10) for name in names]
    deadline = time.monotonic() + 60.0
    sent = []
    while len({picture.header.stamp.nanosec for picture in pictures}) < 2 or len(pictures) < 2 * len(names):
        assert time.monotonic() < deadline
        sent.append(camera_image(next(stamps)))
        listening.answer(sent[-1])
    for subscription in looking:
        listening.call(partial(listening.node.destroy_subscription, subscription))
    assert {(p.height, p.width, p.encoding) for p in pictures} == {(48, 64, "bgr8")}
    assert set(headers(pictures)) <= set(headers(sent))


def test_parameters_change_what_the_next_results_reuse(
    listening: Any, arrangement: str, stamps: Iterator[int], camera_image: Callable[..., Any]
) -> None:
    node = "matcher" if arrangement == "two processes" else "cached_inference"

    def reuse_of_slightly_changed_frame() -> float:
        listening.clear()
        image = camera_image(next(stamps))
        changed = camera_image(next(stamps))
        changed.data = (np.frombuffer(image.data, np.uint8) ^ 1).tobytes()
        listening.publish(image, changed)
        return float(listening.expect(2)[1].reuse_ratio)

    assert reuse_of_slightly_changed_frame() == pytest.approx(1.0)
    assert listening.set_parameters(node, threshold=100.0)[0][0].successful
    assert reuse_of_slightly_changed_frame() == 0.0
    assert listening.set_parameters(node, threshold=20.0, block_size=8)[0][1].successful
    assert reuse_of_slightly_changed_frame() == pytest.approx(1.0)


def test_the_mode_changes_live(
    listening: Any, arrangement: str, stamps: Iterator[int], camera_image: Callable[..., Any]
) -> None:
    node = "inference" if arrangement == "two processes" else "cached_inference"
    modes = []
    for mode in ("dense", "deepcache", "exact"):
        listening.clear()
        assert listening.set_parameters(node, mode=mode)[0][0].successful
        listening.publish(*(camera_image(next(stamps)) for _ in range(3)))
        modes.append(listening.expect(3)[2].mode)
    assert modes == ["dense", "deepcache", "exact"]


def test_a_rejected_value_says_why(listening: Any, arrangement: str) -> None:
    node = "matcher" if arrangement == "two processes" else "cached_inference"
    (too_low, not_live, no_such) = listening.set_parameters(
        node, threshold=-1.0, image_topic="elsewhere", matcher="telepathy"
    )[0]
    assert not any(answer.successful for answer in (too_low, not_live, no_such))
    assert "range" in too_low.reason
    assert "read-only" in not_live.reason
    assert "telepathy" in no_such.reason
    assert "diamond_optimised" in no_such.reason
