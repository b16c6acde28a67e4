# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Freed memory goes back to the system, where the C library is glibc."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

GIVES_BACK = """
import psutil
from cacheinf_ros.heap import give_memory_back, share_pools

share_pools(2)
resident = lambda: psutil.Process().memory_info().rss
pieces = [bytes(4000) for _ in range(20_000)]  # 80 MB, in pieces that the C library keeps
last = bytes(4000)  # above them: what lies below it goes back only where that is asked for
del pieces
before = resident()
give_memory_back()
assert before - resident() > 60e6, (before, resident())
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another C library keeps memory in its own way")
def test_what_was_freed_goes_back() -> None:
    subprocess.run([sys.executable, "-c", GIVES_BACK], check=True)
