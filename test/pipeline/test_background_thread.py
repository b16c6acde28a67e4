# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""A process ends by itself, and not by a signal, while something is prepared in the background."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import sys, threading, time
from cacheinf_ros.pipeline.background_thread import start_background

class Owner: pass

def work():
    {work}
    print("ended", flush=True)

stopping = threading.Event()
owner = Owner()
start_background(owner, work, "work", stopping)
print("main is done", flush=True)
"""


@pytest.mark.parametrize("work", ["stopping.wait()", "time.sleep(0.5)"])
def test_the_interpreter_waits_for_it(work: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(work=work)], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n")[:2] == ["main is done", "ended"]
