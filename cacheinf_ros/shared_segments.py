# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Mend the shared memory of Fast DDS after processes that were killed.

Each leaves its segment, 17.5 MB with this package's profiles. A node that crashes and is restarted would fill a
robot's memory within a thousand restarts, and long before that its images would not fit into what is left. So segments
whose owner is dead are removed, as ``fastdds shm clean`` does.

One that is killed while it makes a port leaves it unfinished. Whoever sends to that port waits for ever until it is
finished, and holds the locks that others of its threads need: they all hang. So unfinished ports are given up.
"""

from __future__ import annotations

import fcntl
import os
import re
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_SHARED_MEMORY = Path("/dev/shm")
_LOCK = re.compile(r"(fast(?:dds|rtps)_[0-9a-z]{16})_el")  # its owner holds it for as long as it lives
_JUST_MADE_S = 10.0  # the owner creates the lock file first, and locks it then
_PORT = re.compile(r"fast(?:dds|rtps)_port\d+")
_MAKING_S = 2.0  # making a port takes less than a millisecond
_PERIOD_S = 1.0
# The state of a segment is its first word, and one of a single byte is corrupted, too: managed_open_or_create_impl of
# Boost.Interprocess, which Fast DDS makes segments with.
_STATE = struct.Struct("=I")
_UNFINISHED, _CORRUPTED = (0, 1), 3


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
    for lock, named in _files(folder, _LOCK):
        with suppress(OSError):  # another user's, in use, or somebody else removes it at this moment
            freed += _removed(lock, folder / named[1], newest)
    return freed


def _files(folder: Path, names: re.Pattern[str]) -> list[tuple[Path, re.Match[str]]]:
    """Return the files of a folder with such names, and the matches of these; none where there is no such folder."""
    try:
        found = [(path, names.fullmatch(path.name)) for path in folder.iterdir()]
    except OSError:
        return []
    return [(path, match) for path, match in found if match is not None]


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


def give_up_unfinished_ports(folder: Path = _SHARED_MEMORY, *, least_age_s: float = _MAKING_S) -> list[str]:
    """Mark ports as corrupted that somebody has begun to make and not finished, and remove them.

    Those who wait for such a port see the mark, and make the port anew.

    Args:
        folder: where the system keeps shared memory.
        least_age_s: younger ports are left alone, in seconds: somebody may be making them.

    Returns:
        The names of the ports.
    """
    given_up = []
    newest = time.time() - least_age_s
    for port, _ in _files(folder, _PORT):
        with suppress(OSError):  # another user's, or somebody else removes it at this moment
            if _given_up(port, newest):
                given_up.append(port.name)
    return given_up


@contextmanager
def watched_ports(tell: Callable[[list[str]], None]) -> Iterator[None]:
    """Give up unfinished ports once a second, in a thread of its own; ``tell`` is given their names there."""
    ended = threading.Event()

    def watch() -> None:
        while not ended.wait(_PERIOD_S):
            if names := give_up_unfinished_ports():
                tell(names)

    threading.Thread(target=watch, name="shared memory", daemon=True).start()
    try:
        yield
    finally:
        ended.set()


def _given_up(port: Path, newest: float) -> bool:
    with port.open("r+b", buffering=0) as file:
        if os.fstat(file.fileno()).st_mtime > newest:
            return False
        state = file.read(_STATE.size)
        if len(state) < _STATE.size:
            file.truncate(1)
        elif _STATE.unpack(state)[0] in _UNFINISHED:
            file.seek(0)
            file.write(_STATE.pack(_CORRUPTED))
        else:
            return False
    port.unlink()
    return True
