# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""What the system says of processes that are not ours to wait for."""

from __future__ import annotations

from pathlib import Path


def has_ended(pid: int) -> bool:
    """Whether it has; it may still be listed until somebody asks how it did."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


def has_loaded(pid: int, library: str) -> bool:
    """Whether a file whose path has this in it is mapped."""
    return library in Path(f"/proc/{pid}/maps").read_text()
