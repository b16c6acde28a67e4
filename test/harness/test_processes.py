# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Processes of nodes: none is left behind."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from cacheinf_ros.harness import NodeCommand, NodeGroup, processes

SIGNALS = (signal.SIGINT, signal.SIGTERM)


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_while_a_process_starts_leaves_none_behind(
    number: signal.Signals, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It comes when the process is there, and before anybody knows of it."""
    started: list[Any] = []
    popen = processes.subprocess.Popen  # type: ignore[attr-defined]

    def interrupted(*arguments: Any, **options: Any) -> Any:
        started.append(popen(*arguments, **options))
        os.kill(os.getpid(), number)
        return started[0]

    def ended(*_: Any) -> None:
        raise SystemExit(1)

    handlers = {each: signal.signal(each, ended) for each in SIGNALS}
    monkeypatch.setattr(processes.subprocess, "Popen", interrupted)  # type: ignore[attr-defined]
    try:
        with pytest.raises(SystemExit), NodeGroup(tmp_path) as group:
            group.start(NodeCommand(executable="matcher"))
        assert all(signal.getsignal(each) is ended for each in SIGNALS)
    finally:
        for each, handler in handlers.items():
            signal.signal(each, handler)
    assert [process.poll() is not None for process in started] == [True]
