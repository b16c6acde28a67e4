# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Loads the compiled library, where it was built."""

from __future__ import annotations

import ctypes
from functools import cache
from pathlib import Path

from cacheinf_ros.engine.kernels.abi import declare
from cacheinf_ros.errors import EngineError

_PATH = Path(__file__).parent / "libcacheinf_kernels.so"


@cache
def kernel_library() -> ctypes.CDLL | None:
    """Return the library, or None where it was not built (no C++ compiler)."""
    return load_library(_PATH) if _PATH.is_file() else None


def load_library(path: Path) -> ctypes.CDLL:
    """Load the library in a file, and declare its functions.

    Raises:
        EngineError: it was built for another machine, or from another version of the package.
    """
    try:
        library = ctypes.CDLL(str(path))
    except OSError as error:  # of another architecture, or linked with a newer libstdc++
        raise EngineError(
            f"the compiled kernels cannot be loaded: {error}; build the package on this machine"
        ) from None
    declare(library)
    return library
