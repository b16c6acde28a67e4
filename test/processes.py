# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""What the system says of processes that are not this process's children."""

from __future__ import annotations

from pathlib import Path


def has_ended(pid: int) -> bool:
    """Tell whether a process has ended; it may still be listed as a zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


def has_loaded(pid: int, library: str) -> bool:
    """Tell whether a process has mapped a file whose path contains this text."""
    return library in Path(f"/proc/{pid}/maps").read_text()
