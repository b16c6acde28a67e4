# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The traces in config/traces are those that the code generates."""

from __future__ import annotations

from pathlib import Path

from benchmarks.offload.traces import TRACES, write_traces
from cacheinf_ros.offload.protocol.limited_link import read_trace

CONFIG = Path(__file__).parents[3] / "config" / "traces"


def test_what_is_committed_is_what_is_generated(tmp_path: Path) -> None:
    write_traces(tmp_path)
    for name in TRACES:
        assert (tmp_path / f"{name}.csv").read_text() == (CONFIG / f"{name}.csv").read_text()
        assert read_trace(str(CONFIG / f"{name}.csv")).period == 60.0
