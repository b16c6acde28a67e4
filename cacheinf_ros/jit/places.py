# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Find the library of a source file: beside it, or in the user's cache where its folder cannot be written to.

The library's name says what it was compiled from and for: one that does not fit is not found.
"""

from __future__ import annotations

import hashlib
import os
import platform
from functools import cache
from pathlib import Path

from cacheinf_ros.disk_cache import cache_folder

_BESIDE = "__pycache__"
_CPU = Path("/proc/cpuinfo")
_FEATURES = ("flags", "Features", "isa")  # of x86, ARM, RISC-V


def find_library(source: Path) -> Path | None:
    """Return the library compiled from the present source file for this processor; None: there is none."""
    return next((path for path in _places(source) if path.is_file()), None)


def new_library(source: Path) -> Path:
    """Return where to write the library of a source file; raises :class:`OSError` where no folder can be written to."""
    for path in _places(source):
        if _is_writable(path.parent):
            return path
    raise PermissionError(
        f"neither the folder of the package nor {cache_folder()} can be written to: set XDG_CACHE_HOME to one that can"
    )


def outdated_libraries(library: Path) -> tuple[Path, ...]:
    """Return the libraries for this processor from older versions of the same source file.

    There are none in the user's cache, where nobody can tell which file a library belongs to.
    """
    if library.parent.name != _BESIDE:
        return ()
    name, machine, *_ = library.name.split(".")
    return tuple(path for path in library.parent.glob(f"{name}.{machine}.*.so") if path != library)


def _places(source: Path) -> tuple[Path, ...]:
    builder = (Path(__file__).with_name(name).read_bytes() for name in ("build.py", "library.py"))
    content = hashlib.sha256(b"".join((source.read_bytes(), *builder))).hexdigest()[:16]
    name = f"{source.stem}.{_machine()}.{content}.so"
    return source.parent / _BESIDE / name, cache_folder() / "kernels" / name


@cache
def _machine() -> str:
    features = platform.machine()
    if _CPU.is_file():
        with _CPU.open(encoding="utf-8", errors="replace") as lines:
            features += next((line for line in lines if line.startswith(_FEATURES)), "")
    return hashlib.sha256(features.encode()).hexdigest()[:8]


def _is_writable(folder: Path) -> bool:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return False
    return os.access(folder, os.W_OK)
