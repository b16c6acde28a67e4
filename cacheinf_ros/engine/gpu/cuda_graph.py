# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Work on a CUDA device captured as one graph, where that can be."""

from __future__ import annotations

import logging
from collections.abc import Callable

import torch

_log = logging.getLogger(__name__)


def captured(run: Callable[[], None], what: str) -> torch.cuda.CUDAGraph | None:
    """Capture all that a function launches, or say once in the log why that cannot be, and return None.

    Args:
        what: subject of the line in the log.
    """
    graph = torch.cuda.CUDAGraph()
    try:
        # what other threads do on the device meanwhile, as frames of an engine, or dense ones prepared, is no error
        with torch.cuda.graph(graph, capture_error_mode="thread_local"):
            run()
    except RuntimeError as error:
        reason = str(error).splitlines()[0]
        _log.warning("%s cannot be one CUDA graph (%s): every kernel is launched by itself, slower", what, reason)
        return None
    return graph
