# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Captures work on a CUDA device as one CUDA graph, where that is possible."""

from __future__ import annotations

import gc
import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch

from cacheinf_ros.engine.tf32 import SETTING

_log = logging.getLogger(__name__)
_PAUSING = threading.Lock()
"""The lock that is held while Python collects no garbage, which is one setting for the whole process."""


def captured(run: Callable[[], None], what: str) -> torch.cuda.CUDAGraph | None:
    """Capture all that a function launches as a CUDA graph; where that fails, log a warning and return None.

    Args:
        run: makes the launches.
        what: the subject of the line in the log.
    """
    graph, stream = torch.cuda.CUDAGraph(), torch.cuda.current_stream()
    try:
        # Other threads may use the device meanwhile, for frames of another engine or to prepare a dense one. What is
        # captured may ask for the setting's lock, so it is taken first: two threads that took both crosswise would wait
        # for each other for ever.
        with SETTING, no_garbage_collection(), torch.cuda.graph(graph, capture_error_mode="thread_local"):
            run()
    except RuntimeError as error:
        reason = str(error).splitlines()[0]
        _log.warning("%s cannot be one CUDA graph (%s): every kernel is launched by itself, slower", what, reason)
        return None
    finally:
        torch.cuda.set_stream(stream)  # a capture that fails leaves torch on the stream that all captures share
    return graph


@contextmanager
def no_garbage_collection() -> Iterator[None]:
    """Have Python collect no garbage meanwhile; the setting before is restored.

    Garbage may hold another graph or pinned memory, which CUDA refuses to release in a thread that is capturing: the
    destructor then ends the process, as it did on an H200.
    """
    with _PAUSING:
        was_enabled = gc.isenabled()
        gc.disable()
        try:
            yield
        finally:
            if was_enabled:
                gc.enable()
