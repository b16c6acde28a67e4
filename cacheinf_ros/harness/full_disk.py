# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""A disk without room, for processes that keep files and logs there."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

_PAGE = 4096


@contextlib.contextmanager
def full_disk(folder: Path) -> Iterator[Mapping[str, str]]:
    """Variables with which a process keeps its files where nothing can be written, while the context lasts.

    Where this process may mount, that is a disk of one page that is full, for the logs of ROS too; elsewhere a file
    stands where the folder of kept files would be.

    Args:
        folder: is made, and holds the disk.
    """
    folder.mkdir(parents=True, exist_ok=True)
    mounted = ["mount", "-t", "tmpfs", "-o", f"size={_PAGE}", "tmpfs", str(folder)]
    try:
        subprocess.run(mounted, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        instead = folder / "no_folder"
        instead.write_bytes(b"")
        yield {"XDG_CACHE_HOME": str(instead)}
        return
    try:
        (folder / "ballast").write_bytes(bytes(_PAGE))
        yield {"XDG_CACHE_HOME": str(folder), "ROS_LOG_DIR": str(folder / "log")}
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True, capture_output=True)
