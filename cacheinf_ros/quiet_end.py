# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""End a node that is interrupted before it works: at once, with exit code 0 and without a traceback.

Importing torch and numba and compiling a model take seconds. An exception that a signal raises meanwhile is printed,
swallowed or turned into a crash by whatever code it hits; there is nothing to lose yet, so the process just ends.
This module imports nothing that takes time: it is the first that runs.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from types import FrameType

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_PATIENCE_S = 2.0
_leaving = threading.Event()


def end_quietly_on_signals(leave: Callable[[], None] = lambda: None) -> None:
    """End the process at the next SIGINT or SIGTERM.

    Args:
        leave: called first; it is given two seconds.
    """

    def end(_number: int, _frame: FrameType | None) -> None:
        if _leaving.is_set():
            return
        _leaving.set()
        last_resort = threading.Timer(_PATIENCE_S, os._exit, (0,))
        last_resort.daemon = True
        last_resort.start()
        try:
            leave()
        finally:
            os._exit(0)

    for number in _SIGNALS:
        signal.signal(number, end)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)


def call_on_signals(callback: Callable[[], None]) -> None:
    """Make SIGINT and SIGTERM only call ``callback`` from now on, in the main thread."""
    for number in _SIGNALS:
        signal.signal(number, lambda *_: callback())


def ignore_signals() -> None:
    """Ignore SIGINT and SIGTERM from now on, while the node shuts down: Ctrl-C in a terminal often comes twice."""
    for number in _SIGNALS:
        signal.signal(number, signal.SIG_IGN)
