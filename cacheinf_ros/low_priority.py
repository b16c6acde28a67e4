# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Work that may take longer where others compute: it runs in threads that come after those of frames."""

from __future__ import annotations

import os
import threading

NICE = 10
"""Niceness of such work: where all cores are busy it still gets about a tenth of one."""
LOWEST = 19
"""Niceness of what nobody waits for."""


def lower_priority() -> None:
    """Let the calling thread, and threads that it starts, come after others. A user cannot take that back.

    A thread that comes after more than that already, as all of a node under ``nice``, stays where it is.
    """
    thread = threading.get_native_id()
    os.setpriority(os.PRIO_PROCESS, thread, max(NICE, os.getpriority(os.PRIO_PROCESS, thread)))
