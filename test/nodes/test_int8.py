# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""A node with precision int8, on a detector quantised for it: real processes."""

from __future__ import annotations

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


@pytest.mark.skipif(not choose_backend("cpu", 1, Precision.INT8).takes_levels, reason="needs the compiled kernels")
def test_a_node_answers_in_int8_what_the_engine_computes_densely(rig: Any) -> None:
    """With a cache, and to the last bit; the node finds the scales where the command leaves them."""
    size = f"{SIZE[0]}x{SIZE[1]}"
    images = [frame.image for frame in open_source(f"scene:fixed?frames={FRAMES}&size={size}")]
    model = load_model("scenenet", input_size=SIZE)
    keep_scales(model, quantise(model, images[:2], 1).scales)
    parameters = {"model": "scenenet", "input_size": size, "mode": "exact", "threshold": 100.0, "outputs": "all"}
    node = rig.nodes.start(rig.command("cached_inference", precision="int8", **parameters))
    node.wait_ready()
    messages = [
        image_message(Header(stamp=time_message(10**9 + i * 10**8), frame_id="camera"), image)
        for i, image in enumerate(images)
    ]
    rig.station.wait_for_nodes(messages[0], subscribers=1)
    results = [rig.station.answer(message) for message in messages]
    assert node.stop() == 0

    engine = Engine(model, EngineConfig(precision=Precision.INT8, mode=Mode.DENSE, threads=1))
    boxes = 0
    for image, result in zip(images, results, strict=True):
        outputs = engine.run(image, None).outputs
        found = decode(outputs, model.card, image.shape[:2]).boxes
        assert not result.error
        assert bytes(result.data) == b"".join(np.ascontiguousarray(value).tobytes() for value in outputs.values())
        assert list(result.box_scores) == [box.score for box in found]
        boxes += len(found)
    assert boxes and {result.mode for result in results[1:]} == {"exact"}
    assert min(result.active_share for result in results[1:]) < 1.0
    assert "convolutions" in node.output and "in int8" in node.output
