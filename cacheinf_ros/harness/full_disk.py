# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Provides a full disk for processes that keep files and logs on it."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

_PAGE = 4096


@contextlib.contextmanager
def full_disk(folder: Path) -> Iterator[Mapping[str, str]]:
    """Yield environment variables that make a process keep its files where nothing can be written, within the context.

    Where this process may mount, that is a full disk of one page, for ROS logs too; elsewhere a file stands where the
    folder of kept files would be.

    Args:
        folder: the mount point of the disk; it is created.
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
