# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Inner loops in Python, compiled by numba: into libraries that need neither numba nor LLVM, or within the process."""

from cacheinf_ros.jit.library import kernel
from cacheinf_ros.jit.library_kernel import (
    BOOL,
    BYTES,
    FLAGS,
    FLOAT,
    FLOATS,
    IMAGES,
    INT,
    READ_ONLY_FLAGS,
    READ_ONLY_FLOATS,
    Array,
    Arrays,
)

__all__ = [
    "BOOL", "BYTES", "FLAGS", "FLOAT", "FLOATS", "IMAGES", "INT", "READ_ONLY_FLAGS", "READ_ONLY_FLOATS", "Array",
    "Arrays", "kernel",
]  # fmt: skip

# Importing it loads numba, which nodes start without.
__all__ += ["compiled"]
