# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Loads the compiled library, where it was built."""

from __future__ import annotations

import ctypes
from functools import cache
from pathlib import Path

from cacheinf_ros.engine.kernels.abi import declare

_PATH = Path(__file__).parent / "libcacheinf_kernels.so"


@cache
def kernel_library() -> ctypes.CDLL | None:
    """Return the library, or None where it was not built (no C++ compiler)."""
    return load_library(_PATH) if _PATH.is_file() else None


def load_library(path: Path) -> ctypes.CDLL:
    """Load the library in a file, and declare its functions.

    Raises:
        EngineError: it was built from another version of the package.
    """
    library = ctypes.CDLL(str(path))
    declare(library)
    return library
