# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Work that may take longer where others compute: it runs in threads that come after those of frames."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

NICE = 10
"""Niceness of such work: where all cores are busy it still gets about a tenth of one."""
T = TypeVar("T")


def lower_priority() -> None:
    """Let the calling thread, and threads that it starts, come after others. A user cannot take that back."""
    os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICE)


def with_low_priority(work: Callable[[], T]) -> T:
    """Do something in a thread of low priority, and wait for its result; what it raises is raised here."""
    with ThreadPoolExecutor(1, "low_priority", initializer=lower_priority) as pool:
        return pool.submit(work).result()
