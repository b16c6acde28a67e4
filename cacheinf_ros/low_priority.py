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
    """Let the calling thread, and threads that it starts, come after others. A user cannot take that back."""
    os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICE)
