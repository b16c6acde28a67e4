# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Make glibc keep less unused memory; with another C library nothing happens."""

from __future__ import annotations

import ctypes
import os

_M_ARENA_MAX = -8  # from glibc's malloc.h


def share_pools(most: int) -> None:
    """Let all threads share ``most`` of glibc's memory pools, unless ``MALLOC_ARENA_MAX`` says how many.

    By default threads spread over eight pools per core, each of which keeps the memory that it was once used for.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None and "MALLOC_ARENA_MAX" not in os.environ:
        mallopt(_M_ARENA_MAX, most)


def give_memory_back() -> None:
    """Return freed memory to the system; takes milliseconds, in which other threads may wait for memory."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
