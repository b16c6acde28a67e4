# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Find the compiler that links libraries of kernels."""

from __future__ import annotations

import os
import shutil

_COMPILERS = ("cc", "gcc", "clang")


def find_linker() -> str:
    """Return the path of a C compiler; raises :class:`FileNotFoundError` with the remedy where there is none."""
    found = next(filter(None, map(shutil.which, (os.environ.get("CC", ""), *_COMPILERS))), None)
    if found is None:
        raise FileNotFoundError(
            f"none of {', '.join(_COMPILERS)} is there to link a library: install one (sudo apt install g++)"
        )
    return found
