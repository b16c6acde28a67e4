# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""A frame passes through few files between image and result; scripts/trace_frame.py lists them."""

# ruff: noqa: E402  the tests are skipped before the imports that need ROS

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import islice
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

rclpy = pytest.importorskip("rclpy", reason="needs ROS 2")

from image_messages import image_message
from rclpy.executors import SingleThreadedExecutor
from std_msgs.msg import Header

import cacheinf_ros.cache_map
from cacheinf_ros.nodes.conversions import time_message
from cacheinf_ros.nodes.inference import InferenceNode
from cacheinf_ros.nodes.matcher import MatcherNode
from cacheinf_ros.sources import open_source

PACKAGE = f"{Path(cacheinf_ros.cache_map.__file__).parent}/"
GENERATED = "msg/"
MOST_FILES = 35
WARM, FRAMES = 5, 15


@contextmanager
def entered() -> Iterator[set[tuple[str, str]]]:
    """Collect (file, function) of the package's functions that threads started within call; the reader may clear it."""
    seen: set[tuple[str, str]] = set()

    def note(frame: FrameType, event: str, argument: Any) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(PACKAGE):
            seen.add((code.co_filename.removeprefix(PACKAGE), code.co_qualname))

    threading.setprofile(note)
    try:
        yield seen
    finally:
        threading.setprofile(None)


@pytest.fixture
def both_nodes(domain: int, inference_command: Callable[..., Any]) -> Iterator[Any]:
    """Initialise ROS for matcher and inference in this process, which have no receiving thread yet."""
    _, _, _, *arguments = inference_command("inference", mode="exact", model="scenenet").line()
    with ExitStack() as stack:
        rclpy.init(args=arguments, domain_id=domain)
        stack.callback(rclpy.try_shutdown)
        yield stack


def test_a_frame_crosses_few_files(both_nodes: ExitStack, station: Any) -> None:
    """The stream is steady and the mode exact; generated messages and files that are only read from do not count."""
    frames = islice(open_source("scene:fixed"), WARM + FRAMES)
    images = [image_message(Header(stamp=time_message(frame.stamp_ns)), frame.image) for frame in frames]
    often: Counter[tuple[str, str]] = Counter()
    with entered() as seen:
        executor = SingleThreadedExecutor()
        for node in (MatcherNode(), InferenceNode()):
            node.start()
            executor.add_node(node)
            both_nodes.callback(node.close)
        thread = threading.Thread(target=executor.spin)
        thread.start()
        both_nodes.callback(thread.join)
        both_nodes.callback(executor.shutdown)
        station.wait_for_nodes(images[0], 2)
        for i, image in enumerate(images):
            seen.clear()
            station.answer(image)
            often.update(list(seen) if i >= WARM else ())
    # a timer meets some frames only, and the end of a frame may be seen after its result
    path = {each for each, frames in often.items() if frames > FRAMES // 2 and not each[0].startswith(GENERATED)}
    files = sorted({file for file, _ in path})
    assert {"nodes/matcher.py", "nodes/results.py"} <= set(files)
    assert len(files) <= MOST_FILES, files
    assert sum(name.rpartition(".")[2] == "run" for _, name in path) <= 2
