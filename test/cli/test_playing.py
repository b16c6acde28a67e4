# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""``cacheinf demo`` and ``cacheinf replay`` with real nodes: every frame has a result, and the files can be read."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import cv2
import numpy as np
import pytest
from pages import read_page
from rosbags.highlevel import AnyReader
from rosbags.rosbag2 import StoragePlugin, Writer
from rosbags.typesys import Stores, get_typestore

pytest.importorskip("rclpy", reason="needs ROS 2")

from cacheinf_ros.pipeline.polling import wait_until

TINY = f"{Path(__file__).parents[1] / 'networks' / 'tiny.py'}:tiny"
FRAMES = 12


LIMIT_S = 300.0


def started(*words: str, folder: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "cacheinf_ros.cli.main", *words],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=folder,
    )  # fmt: skip


def ended(process: subprocess.Popen[str]) -> subprocess.CompletedProcess[str]:
    try:
        out, err = process.communicate(timeout=LIMIT_S)
    except subprocess.TimeoutExpired:
        process.terminate()
        process.communicate()
        raise
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


def cacheinf(*words: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return ended(started(*words, folder=folder))


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """Start the demo, and yield its process and folder: it runs beside other tests, since it waits most of the time."""
    folder = tmp_path_factory.mktemp("demo")
    with started("demo", "--frames", str(FRAMES), "--out", "here", folder=folder) as process:
        yield process, folder
        process.terminate()


def camera_bag(folder: Path, *, compressed: bool) -> Path:
    """Record a camera driver's topic at ten frames a second: bgr8, or jpeg with image_transport's topic name."""
    store = get_typestore(Stores.LATEST)
    header_type, time_type = store.types["std_msgs/msg/Header"], store.types["builtin_interfaces/msg/Time"]
    kind = "sensor_msgs/msg/CompressedImage" if compressed else "sensor_msgs/msg/Image"
    topic = "/camera/image_raw/compressed" if compressed else "/camera/image_raw"
    rng = np.random.default_rng(0)
    with Writer(folder, version=9, storage_plugin=StoragePlugin.MCAP) as writer:
        connection = writer.add_connection(topic, kind, typestore=store)
        for index in range(FRAMES):
            stamp = 1_000_000_000 + index * 100_000_000
            header = header_type(stamp=time_type(sec=stamp // 10**9, nanosec=stamp % 10**9), frame_id="camera")
            image = rng.integers(0, 256, (48, 64, 3), dtype=np.uint8)
            if compressed:
                message = store.types[kind](header=header, format="jpeg", data=cv2.imencode(".jpg", image)[1].ravel())
            else:
                message = store.types[kind](
                    header=header, height=48, width=64, encoding="bgr8", is_bigendian=0, step=64 * 3, data=image.ravel()
                )
            writer.write(connection, stamp, store.serialize_cdr(message, kind))
    return folder


@pytest.mark.usefixtures("demo")
@pytest.mark.parametrize("compressed", [False, True], ids=["bgr8", "jpeg"])
def test_replay_writes_a_bag_that_explains_itself(tmp_path: Path, compressed: bool) -> None:
    bag = camera_bag(tmp_path / "drive", compressed=compressed)
    wanted = "--no-html" if compressed else "--no-int8"
    result = cacheinf("replay", str(bag), "--model", TINY, "--out", "out", "--rate", "20", wanted, folder=tmp_path)
    assert result.returncode == 0, result.stdout + result.stderr
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    assert (report["frames"], report["results"], report["dropped"], report["errors"]) == (FRAMES, FRAMES, 0, 0)
    with AnyReader([tmp_path / "out" / "results"]) as reader:  # the reader knows our type from the bag alone
        messages = [reader.deserialize(raw, connection.msgtype) for connection, _, raw in reader.messages()]
    stamps = [message.header.stamp.sec * 10**9 + message.header.stamp.nanosec for message in messages]
    assert len(set(stamps)) == len(messages) == FRAMES
    assert stamps == sorted(stamps)
    assert all(message.output_names and message.error == "" for message in messages)
    assert (tmp_path / "out" / "report.html").exists() is not compressed
    if not compressed:
        page = read_page(tmp_path / "out" / "report.html")
        assert page.run["count"] == len(page.run["reused"]) == FRAMES
        assert {row[0] for table in page.tables for row in table} >= {"the nodes", "every 2", "every 3"}


def test_a_model_that_does_not_exist_is_one_line(tmp_path: Path) -> None:
    result = cacheinf("replay", "scene:fixed?frames=3", "--model", "nothing.onnx", folder=tmp_path)
    text = " ".join((result.stdout + result.stderr).split())
    assert result.returncode == 2
    assert "nothing.onnx does not exist" in text and "Traceback" not in text


def test_nodes_end_with_the_command_that_started_them(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "cacheinf_ros.cli.main", "replay", "scene:fixed", "--model", TINY, "--rate", "1"]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        assert wait_until(lambda: children(process.pid), 60.0)
        nodes = children(process.pid)
        process.terminate()
        assert process.wait(30.0) == 143
    assert wait_until(lambda: not any(Path(f"/proc/{node}").exists() for node in nodes), 60.0)


def test_demo_answers_every_frame_and_draws(demo: tuple[subprocess.Popen[str], Path]) -> None:
    process, folder = demo
    result = ended(process)
    assert result.returncode == 0, result.stdout + result.stderr
    rows = {
        line.split("│")[1].strip(): line.split("│")[2:4] for line in result.stdout.splitlines() if line.startswith("│")
    }
    assert [cell.strip() for cell in rows["results out"]] == [str(2 * FRAMES)] * 2
    assert all(float(cell) > 0.9 for cell in rows["F1 cached"])
    picture = cv2.imread(str(folder / "here" / "demo.png"))
    assert picture is not None and min(picture.shape[:2]) > 400


def children(process: int) -> list[str]:
    return Path(f"/proc/{process}/task/{process}/children").read_text().split()
