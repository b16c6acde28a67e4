# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Tests of starting the nodes: one clear line for wrong models and sources, late nodes work, replay loses nothing."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

from cacheinf_ros.harness import NodeCommand, NodeGroup, ProcessError

NETWORKS = Path(__file__).parents[1] / "networks"
START_S = 60.0


def test_what_cannot_start_says_why_in_one_line(nodes: NodeGroup, tmp_path: Path) -> None:
    not_a_model = tmp_path / "notes.pt2"
    not_a_model.write_text("not a model")
    tiny = f"{NETWORKS / 'tiny.py'}:tiny"
    attempts = {
        "nosuch.pt2": ("inference", {"model": "nosuch.pt2"}),
        "notes.pt2": ("cached_inference", {"model": str(not_a_model)}),
        "not a torch.nn.Module": ("server", {"model": f"{NETWORKS / 'tiny.py'}:not_a_model"}),
        "(48, 64)": ("inference", {"model": tiny, "input_size": "32x32"}),
        "HEIGHTxWIDTH": ("inference", {"model": tiny, "input_size": "large"}),
        "threshold": ("matcher", {"threshold": -1.0}),
        "block_size": ("matcher", {"block_size": "ten"}),
        "'front camera' cannot be the name of a topic": ("matcher", {"image_topic": "front camera"}),
        "'results/' cannot be the name of a topic": ("inference", {"model": tiny, "result_topic": "results/"}),
        "nosuch.mp4": ("replay", {"source": "nosuch.mp4"}),
    }
    commands = [NodeCommand(executable=name, parameters=values) for name, values in attempts.values()]
    for expected, process in zip(attempts, [nodes.start(command) for command in commands], strict=True):
        assert process.wait(START_S) == 2
        fatal = [line for line in process.output.splitlines() if "[FATAL]" in line]
        assert len(fatal) == 1, process.output
        assert expected in fatal[0]
        assert "Traceback" not in process.output


def test_a_process_that_ends_is_not_waited_for(new_nodes: NodeGroup) -> None:
    attempts = {
        "nosuch.mp4": ("replay", {"source": "nosuch.mp4"}),
        "nosuch.pt2": ("server", {"model": "nosuch.pt2"}),
        "32x": ("inference", {"input_size": "32x"}),
        "nosuch/catalog.yaml": ("catalog_inference", {"catalogs": ["nosuch"]}),
    }
    commands = [NodeCommand(executable=name, parameters=values) for name, values in attempts.values()]
    for expected, process in zip(attempts, [new_nodes.start(command) for command in commands], strict=True):
        with pytest.raises(ProcessError, match=rf"^{process.command.executable}: (?!\[).*{re.escape(expected)}"):
            process.wait_ready(START_S)


def test_a_command_line_keeps_the_types_of_parameters() -> None:
    command = NodeCommand(
        executable="matcher",
        namespace="/robot",
        parameters={"threshold": 20.0, "block_size": 8, "image_topic": "1", "use_sim_time": True},
        remappings={"image": "camera/image"},
    )
    words = command.line()
    assert words[words.index("--ros-args") - 1] == "matcher"
    for expected in ("threshold:=20.0", "block_size:=8", 'image_topic:="1"', "use_sim_time:=true", "__ns:=/robot"):
        assert expected in words


def test_a_node_started_late_joins_a_running_stream(
    nodes: NodeGroup, station: Any, camera_image: Callable[..., Any], inference_command: Callable[..., NodeCommand]
) -> None:
    stop = threading.Event()

    def film() -> None:
        stamp = 10**12
        while not stop.wait(0.05):
            stamp += 50_000_000
            station.publish(camera_image(stamp))

    camera = threading.Thread(target=film)
    camera.start()
    try:
        late = nodes.start(inference_command("cached_inference", queue_size=1))
        late.wait_ready()
        station.wait_for_results(5)
    finally:
        stop.set()
        camera.join()
    late.stop()
    assert not any(result.error for result in station.results)


@pytest.mark.parametrize(("transport", "reference"), [("raw", "folder"), ("compressed", "scene")])
def test_replay_publishes_every_frame_once_and_ends(
    nodes: NodeGroup,
    station: Any,
    inference_command: Callable[..., NodeCommand],
    tmp_path: Path,
    transport: str,
    reference: str,
) -> None:
    for i in range(5):
        cv2.imwrite(str(tmp_path / f"{i}.png"), np.full((48, 64, 3), 50 * i, np.uint8))
    source = str(tmp_path) if reference == "folder" else "scene:fixed?size=48x64&frames=5"
    simulated = transport == "compressed"
    inference = nodes.start(inference_command("cached_inference", image_transport=transport, use_sim_time=simulated))
    inference.wait_ready()
    station.diagnostics.clear()
    station.wait_for_publisher()
    parameters = {
        "source": source,
        "rate": 20.0,
        "image_topic": "camera/image",
        "image_transport": transport,
        "stamp": "clock" if simulated else "source",
        "publish_clock": simulated,
        "frame_id": "robot_camera",
        "wait_for_subscribers": 1,
    }
    replay = nodes.start(NodeCommand(executable="replay", parameters=parameters))
    assert replay.wait(START_S) == 0
    results = station.expect(5)
    inference.stop()
    stamps = [result.header.stamp.sec * 10**9 + result.header.stamp.nanosec for result in results]
    assert stamps == sorted(set(stamps))
    assert stamps[0] == 10**9
    assert {result.header.frame_id for result in results} == {"robot_camera"}
