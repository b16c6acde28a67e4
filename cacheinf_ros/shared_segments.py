# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Remove shared memory that killed Fast DDS processes have left behind, as ``fastdds shm clean`` does.

Each leaves its segment, 17.5 MB with this package's profiles. A node that crashes and is restarted would fill a
robot's memory within a thousand restarts, and long before that its images would not fit into what is left.
"""

from __future__ import annotations

import fcntl
import os
import re
import time
from contextlib import suppress
from pathlib import Path

_SHARED_MEMORY = Path("/dev/shm")
_LOCK = re.compile(r"(fast(?:dds|rtps)_[0-9a-z]{16})_el")  # its owner holds it for as long as it lives
_JUST_MADE_S = 10.0  # the owner creates the lock file first, and locks it then


def remove_abandoned_segments(folder: Path = _SHARED_MEMORY, *, least_age_s: float = _JUST_MADE_S) -> int:
    """Remove segments whose owner is dead; other segments, and other files, are left alone.

    Args:
        folder: where the system keeps shared memory.
        least_age_s: younger segments are left alone, in seconds: they may not have been locked yet.

    Returns:
        The number of bytes that were freed.
    """
    freed = 0
    newest = time.time() - least_age_s
    with suppress(OSError):  # no such folder
        for lock in list(folder.iterdir()):
            found = _LOCK.fullmatch(lock.name)
            if found is not None:
                with suppress(OSError):  # another user's, in use, or somebody else removes it at this moment
                    freed += _removed(lock, folder / found[1], newest)
    return freed


def _removed(lock: Path, segment: Path, newest: float) -> int:
    descriptor = os.open(lock, os.O_RDWR)
    try:
        if os.fstat(descriptor).st_mtime > newest:
            return 0
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        size = 0
        with suppress(FileNotFoundError):
            size = segment.stat().st_size
            segment.unlink()
        lock.unlink()
        return size
    finally:
        os.close(descriptor)
