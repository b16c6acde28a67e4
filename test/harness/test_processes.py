# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Processes of nodes: none is left behind."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

SIGNALS = (signal.SIGINT, signal.SIGTERM)
ENDED = 3
DEADLINE_S = 60.0
STARTS_AND_IS_SIGNALLED = f"""
import os, signal, subprocess, sys
from pathlib import Path
from cacheinf_ros.harness import NodeCommand, NodeGroup, processes

popen = subprocess.Popen

def interrupted(*arguments, **options):
    process = popen(*arguments, **options)
    print(process.pid, flush=True)
    os.kill(os.getpid(), int(sys.argv[1]))
    return process

def ended(*_):
    raise SystemExit({ENDED})

for number in (signal.SIGINT, signal.SIGTERM):
    signal.signal(number, ended)
processes.subprocess.Popen = interrupted
with NodeGroup(Path(sys.argv[2])) as group:
    try:
        group.start(NodeCommand(executable="matcher"))
    finally:
        assert all(signal.getsignal(each) is ended for each in (signal.SIGINT, signal.SIGTERM))
"""


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_while_a_process_starts_leaves_none_behind(number: signal.Signals, tmp_path: Path) -> None:
    """The signal comes when the process exists but is not registered yet; the signalled process runs nothing else."""
    command = [sys.executable, "-c", STARTS_AND_IS_SIGNALLED, str(int(number)), str(tmp_path)]
    group = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE_S, check=False)
    assert group.returncode == ENDED, group.stderr
    assert not psutil.pid_exists(int(group.stdout))


def test_who_imports_what_starts_nodes_keeps_its_signals() -> None:
    code = "import signal, cacheinf_ros.harness.start_node; print(len(signal.pthread_sigmask(signal.SIG_BLOCK, ())))"
    held_back = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert held_back.strip() == "0"
