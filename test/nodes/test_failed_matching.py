# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""A frame that cannot be matched is computed completely: it gets its answer, and the failure is told."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("rclpy", reason="needs ROS 2")

from cacheinf_ros.cache_map import LARGEST_SIDE
from cacheinf_ros.pipeline.polling import wait_until

DEADLINE_S = 60.0
FRAME_NS = 100_000_000
TOO_WIDE = (48, LARGEST_SIDE + 64)


@pytest.mark.parametrize("mode", ["exact", "dense"])
def test_matching_that_fails_costs_reuse_and_no_answer(rig: Any, mode: str) -> None:
    """No cache map may be as wide as the second frame."""
    node = rig.nodes.start(rig.command("cached_inference", mode=mode))
    node.wait_ready()
    sizes = [(48, 64), TOO_WIDE, (48, 64), (48, 64)]
    images = [rig.image(number * FRAME_NS, size=size) for number, size in enumerate(sizes, 1)]
    rig.station.wait_for_nodes(images[0], subscribers=1)
    first, wide, again, last = [rig.station.answer(image) for image in images]
    assert not any(result.error for result in (first, wide, again, last))
    assert wide.reuse_ratio == 0.0 and len(wide.data) == len(first.data) and wide.data != first.data
    for result in (again, last):
        assert np.allclose(*(np.frombuffer(each.data, np.float32) for each in (result, first)), atol=1e-5)
    assert last.reuse_ratio == (1.0 if mode == "exact" else 0.0)
    assert wait_until(lambda: rig.station.said("cached_inference").get("results") == "4", DEADLINE_S)
    assert rig.station.said("cached_inference")["errors"] == "1"
    assert f"matching of frame {2 * FRAME_NS}: " in node.output
    assert node.stop() == 0
