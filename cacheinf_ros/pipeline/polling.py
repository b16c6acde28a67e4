# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Waits for something that another process or thread does."""

from __future__ import annotations

import time
from collections.abc import Callable

_POLL_S = 0.01


def wait_until(condition: Callable[[], bool], timeout_s: float) -> bool:
    """Poll until ``condition`` holds; returns whether it did before the deadline."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL_S)
    return True
