# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Nodes with precision int8 in real processes, on a detector quantised for it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

pytest.importorskip("rclpy", reason="needs ROS 2")

from image_messages import image_message
from std_msgs.msg import Header

from cacheinf_ros.engine import Engine, EngineConfig, Mode, Precision, decode
from cacheinf_ros.engine.backends import choose_backend
from cacheinf_ros.engine.quantisation import keep_scales, quantise
from cacheinf_ros.graph import load_model
from cacheinf_ros.nodes.conversions import time_message
from cacheinf_ros.sources import open_source

SIZE = (96, 160)
FRAMES = 4
SERVER = {"server.use": True, "server.policy": "remote", "server.deadline_ms": 5000.0, "server.probe_s": 0.1}


@pytest.mark.skipif(not choose_backend("cpu", 1, Precision.INT8).takes_levels, reason="needs the compiled kernels")
def test_a_node_answers_in_int8_what_the_engine_computes_densely(rig: Any) -> None:
    """This holds with a cache, alone and with a server, to the last bit.

    Nodes find the scales where the command stores them.
    """
    size = f"{SIZE[0]}x{SIZE[1]}"
    images = [frame.image for frame in open_source(f"scene:fixed?frames={FRAMES}&size={size}")]
    model = load_model("scenenet", input_size=SIZE)
    keep_scales(model, quantise(model, images[:2], 1).scales)
    parameters = {"model": "scenenet", "input_size": size, "precision": "int8"}
    answering = {"mode": "exact", "threshold": 100.0, "outputs": "all", **SERVER}
    node = rig.nodes.start(rig.command("cached_inference", **parameters, **answering))
    node.wait_ready()

    def messages(of: list[Any]) -> list[Any]:
        return [image_message(Header(stamp=time_message(next(stamps)), frame_id="camera"), image) for image in of]

    stamps: Iterator[int] = iter(range(10**9, 10**12, 10**8))
    rig.station.wait_for_nodes(messages(images[:1])[0], subscribers=1)
    alone = [rig.station.answer(message) for message in messages(images)]
    server = rig.nodes.start(rig.command("server", **parameters))
    server.wait_ready()
    while "a session has started" not in node.output:
        rig.station.answer(messages(images[:1])[0])
    shared = [rig.station.answer(message) for message in messages(images)]
    assert node.stop() == 0 and server.stop() == 0

    engine = Engine(model, EngineConfig(precision=Precision.INT8, mode=Mode.DENSE, threads=1))
    boxes = 0
    for image, *results in zip(images, alone, shared, strict=True):
        outputs = engine.run(image, None).outputs
        found = decode(outputs, model.card, image.shape[:2]).boxes
        for result in results:
            assert not result.error
            assert bytes(result.data) == b"".join(np.ascontiguousarray(value).tobytes() for value in outputs.values())
            assert list(result.box_scores) == [box.score for box in found]
        boxes += len(found)
    assert boxes and {result.mode for result in alone[1:]} == {"exact"}
    assert min(result.active_share for result in alone[1:]) < 1.0
    assert {result.where for result in alone} == {"local"} and {result.where for result in shared} == {"shared"}
    assert "convolutions" in node.output and "in int8" in node.output
