# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Kernel threads where the system has no more threads, and where the process ends while they work."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

TIMES = int(os.environ.get("CACHEINF_EXIT_TIMES", "3"))
NO_THREADS = """
import resource
from cacheinf_ros.engine.backends import NativeBackend
from cacheinf_ros.engine.kernels.kernel_library import kernel_library
from cacheinf_ros.errors import EngineError

library = kernel_library()
assert library is not None
pages = int(open("/proc/self/statm").read().split()[0])
most = pages * resource.getpagesize() + 200 * 2**20
resource.setrlimit(resource.RLIMIT_AS, (most, most))  # no room for so many stacks
try:
    NativeBackend(library, 2000)
except EngineError as error:
    print(error)
NativeBackend(library, 2)
"""
EXIT_UNDER_LOAD = """
import gc, os, sys, threading, time
import torch
torch.set_num_threads(1)
from cacheinf_ros.engine.backends import choose_backend
from cacheinf_ros.engine.program import Program
from cacheinf_ros.graph import ModelCard, model_of

layers = (torch.nn.Conv2d(3, 8, 3, padding=1), torch.nn.ReLU(), torch.nn.Conv2d(8, 8, 3, padding=1))
graph = model_of(torch.nn.Sequential(*layers).eval(), ModelCard(name="three", input_size=(48, 64))).graph
gc.collect()
gc.freeze()  # as it ends, no child looks through all that torch is, and so copies it
ended = []
for i in range(int(sys.argv[1])):
    child = os.fork()
    if child == 0:
        program = Program(graph, choose_backend("cpu", 2))
        program.changed_input.fill()
        runs = [0]

        def work():
            while True:
                program._executor.execute(outside=0, refresh=True)  # kernels only: how torch ends is torch's affair
                runs[0] += 1

        threading.Thread(target=work, daemon=True).start()
        while runs[0] < 3:
            time.sleep(0.001)
        break  # and the interpreter ends, with its daemon thread in a kernel
    ended.append(os.waitpid(child, 0)[1])
else:
    print(ended)
"""


def run(program: str, *arguments: str) -> str:
    patience_s = 300 + 5 * TIMES
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments], capture_output=True, text=True, timeout=patience_s, check=False
    )
    assert done.returncode == 0, f"{done.returncode}: {done.stderr[-2000:]}"
    return done.stdout


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits memory as Linux does")
def test_no_more_threads_is_an_error_and_not_the_end() -> None:
    assert "does not give 2000 threads" in run(NO_THREADS)


def test_a_process_may_end_while_kernels_run() -> None:
    assert run(EXIT_UNDER_LOAD, str(TIMES)).strip() == str([0] * TIMES)
