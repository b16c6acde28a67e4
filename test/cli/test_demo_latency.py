# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The demo's latencies are those of all frames, also of those whose cache maps nobody heard."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from cacheinf_ros.cli.demo import latency


def test_no_frame_is_left_out_because_its_map_was_not_heard() -> None:
    """A frame without a map is computed completely: means without such frames looked better than what was seen."""
    played: Any = SimpleNamespace(
        results=[
            SimpleNamespace(stamp_ns=stamp, compute_ms=float(took), error="")
            for stamp, took in ((1, 10), (2, 90), (3, 10))
        ],
        links={1: SimpleNamespace(matching_ms=2.0), 3: SimpleNamespace(matching_ms=4.0)},
    )
    assert latency(played, matching=True).tolist() == [12.0, 93.0, 14.0]
    assert latency(played, matching=False).tolist() == [10.0, 90.0, 10.0]
    played.results.append(SimpleNamespace(stamp_ns=4, compute_ms=0.0, error="no output named 'bbox'"))
    assert latency(played, matching=True).tolist() == [12.0, 93.0, 14.0]
    played.links = {}
    assert latency(played, matching=True).tolist() == [10.0, 90.0, 10.0]
