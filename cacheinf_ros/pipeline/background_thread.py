# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Threads that work beside the frames and end before the interpreter does.

A daemon thread that runs compiled code when Python ends is torn down there, which kills the process with a signal.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from typing import Any

from cacheinf_ros.pipeline.log_owner import owned

_PATIENCE_S = 60.0


def start_background(
    owner: Any, work: Callable[[], None], name: str, stopping: threading.Event | None = None
) -> threading.Thread:
    """Start a thread for an object; at exit the interpreter waits for the thread, at most a minute.

    It logs for the same node as the thread that starts it.

    Args:
        stopping: is set at exit, where the thread can be asked to stop.
    """
    thread = threading.Thread(target=owned(work), name=name, daemon=True)
    thread.start()
    weakref.finalize(owner, _end, thread, stopping)
    return thread


def _end(thread: threading.Thread, stopping: threading.Event | None) -> None:
    if stopping is not None:
        stopping.set()
    if thread is not threading.current_thread():  # which may be the last that knew the object
        thread.join(_PATIENCE_S)
