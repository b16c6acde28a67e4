# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""What robots tell each other about classes comes out as it went in, and nonsense is refused."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("rclpy", reason="needs ROS 2")

from rclpy.serialization import deserialize_message, serialize_message

from cacheinf_ros.catalog.specialists.other_robots import ClassReport
from cacheinf_ros.errors import MessageError
from cacheinf_ros.msg import ClassCounts
from cacheinf_ros.nodes.class_count_messages import report_from, report_message

WEIGHTS = "0123456789abcdef" * 4
SOUND: dict[str, Any] = {"robot": "a", "model": WEIGHTS, "classes": [3, 0], "counts": [40, 7]}


@given(st.dictionaries(st.integers(0, 2**32 - 1), st.integers(1, 200), max_size=50))
def test_a_report_comes_out_as_it_went_in(counts: dict[int, int]) -> None:
    report = ClassReport(robot="robot", model=WEIGHTS, counts=counts)
    assert report_from(deserialize_message(serialize_message(report_message(report)), ClassCounts)) == report


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"robot": ""}, "a name of 1 to 64 characters"),
        ({"robot": "x" * 65}, "a name of 1 to 64 characters"),
        ({"model": "../" + WEIGHTS}, "a SHA-256"),
        ({"counts": [40]}, "2 classes, at most 1000, 1 counts"),
        ({"classes": list(range(1001)), "counts": [1] * 1001}, "1001 classes"),
        ({"classes": [3, 3]}, "a class twice"),
        ({"counts": [40, 0]}, "none of a class"),
        ({"counts": [9_999, 2]}, "more than 10000 answers"),
    ],
)
def test_nonsense_is_refused(changes: dict[str, Any], why: str) -> None:
    report_from(ClassCounts(**SOUND))
    with pytest.raises(MessageError, match=why):
        report_from(ClassCounts(**{**SOUND, **changes}))
