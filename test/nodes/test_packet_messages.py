# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""A server's result is accepted only if its content agrees with what it announces."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("rclpy", reason="needs ROS 2")

from cacheinf_ros.errors import MessageError
from cacheinf_ros.nodes.conversions import byte_array
from cacheinf_ros.nodes.packet_messages import (
    packet_from,
    packet_message,
    result_content,
    result_from,
    stamp_and_picture,
    whole_frame,
)
from cacheinf_ros.offload.protocol.packets import Kind, cut

SOUND = (Path(__file__).parents[1] / "fuzzing" / "seeds" / "result" / "1").read_bytes()
NAN, INF = float("nan"), float("inf")
BAD: list[dict[str, Any]] = [
    {"stage_names": []},
    {"stage_ms": [NAN]},
    {"stage_ms": [-1.0]},
    {"error": "out of memory"},
    {"box_x": []},
    {"box_scores": [INF]},
    {"box_key_points": [2]},
    {"box_key_points": []},
    {"key_point_y": []},
    {"box_outlines": [1]},
    {"box_outlines": [1], "outline_corners": [3]},
    {"output_names": []},
    {"output_dtypes": ["object"]},
    {"output_dtypes": [","]},  # numpy would parse it as Python
    {"output_dtypes": ["4u1"]},
    {"output_shapes": [2, 10]},
    {"output_sizes": [36]},
    {"data": byte_array(np.full(10, NAN, np.float32).tobytes())},
    {"data": byte_array(b"")},
    {"reuse_ratio": NAN},
]


def test_what_was_sent_is_read() -> None:
    message = result_from(SOUND)
    assert message.box_class_names == ["disc"] and result_from(result_content(message)) == message


@pytest.mark.parametrize("changes", BAD, ids=lambda changes: next(iter(changes)))
def test_a_result_that_contradicts_itself_is_refused(changes: dict[str, Any]) -> None:
    message = result_from(SOUND)
    for name, value in changes.items():
        setattr(message, name, value)
    with pytest.raises(MessageError, match="contradicts itself"):
        result_from(result_content(message))


@pytest.mark.parametrize(
    "changes",
    [
        {"mode": "whatever"},
        {"stage_names": ["x" * 1000]},
        {"stage_names": ["x"] * 65, "stage_ms": [0.0] * 65},
        {"class_ids": [0] * 20_000, "class_names": [""] * 20_000, "class_scores": [0.0] * 20_000},
        {"class_names": ["x" * 100_000], "class_ids": [0], "class_scores": [0.5]},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_more_than_any_model_says_is_refused(changes: dict[str, Any]) -> None:
    """A result forged by a stranger once took gigabytes, and was shown in /diagnostics."""
    test_a_result_that_contradicts_itself_is_refused(changes)


@pytest.mark.parametrize("content", [b"", b"\0\1\0\1", b"\0\0\0=", SOUND[:50], SOUND[:-1]])
def test_what_is_no_result_is_refused(content: bytes) -> None:
    """Some of these once ended the process in the middleware's own reader."""
    with pytest.raises(MessageError):
        result_from(content)


@given(
    content=st.binary(max_size=300),
    kind=st.sampled_from(Kind),
    frame=st.integers(0, 2**32 - 1),
    stamp=st.integers(0, 2**63 - 1),
)
def test_packets_and_frames_are_read_as_they_were_written(content: bytes, kind: Kind, frame: int, stamp: int) -> None:
    for packet in cut(content, session="robot", epoch=1, kind=kind, frame=frame, largest=100):
        assert packet_from(packet_message(packet)) == packet
    assert stamp_and_picture(whole_frame(stamp, content)) == (stamp, content)
