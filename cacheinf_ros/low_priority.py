# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Low priority for background work: its threads run after those that compute frames."""

from __future__ import annotations

import os
import threading

NICE = 10
"""The niceness of background work: where all cores are busy it still gets about a tenth of one."""
LOWEST = 19
"""The niceness of work that nobody waits for."""


def lower_priority() -> None:
    """Lower the priority of the calling thread, and of threads that it starts; a user cannot raise it again.

    A thread whose priority is even lower, like all of a node under ``nice``, stays as it is.
    """
    thread = threading.get_native_id()
    os.setpriority(os.PRIO_PROCESS, thread, max(NICE, os.getpriority(os.PRIO_PROCESS, thread)))
