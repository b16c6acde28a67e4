# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Compile inner loops on the machine that they run on, into one library for each source file.

numba takes 130 MB of every process that loads it, even where its kernels come from its cache: more than all the rest of
a matcher. So a separate process (:mod:`.build`) compiles the kernels of a package into libraries, once, which are then
loaded with ctypes. Where that cannot be done (no linker), numba compiles in the process itself, with the same results.

A kernel allocates nothing and raises nothing, and uses kernels and constants of its own file only. The interpreter's
lock is released while it runs, so that the other threads of a node go on.
"""

from __future__ import annotations

import ctypes
import functools
import logging
import os
import subprocess
import sys
from collections.abc import Callable
from enum import Enum
from pathlib import Path
from typing import Any, TypeVar, cast

import numpy as np

from cacheinf_ros.jit.library_kernel import LibraryKernel, Scalar, Type
from cacheinf_ros.jit.linker import find_linker
from cacheinf_ros.jit.places import find_library, new_library

Kernel = TypeVar("Kernel", bound=Callable[..., Any])
HOW_VARIABLE = "CACHEINF_KERNELS"
_log = logging.getLogger(__name__)

# Where an array's fields lie by numpy's C interface (PyArrayObject), in units of 8 bytes.
DATA_AT = object.__basicsize__ // 8
LENGTHS_AT = DATA_AT + 2


class How(Enum):
    """How kernels are compiled: the values of the environment variable ``CACHEINF_KERNELS``."""

    LIBRARY = "library"
    """Kernels come from a library, which is built where it is missing; where that fails, as with ``process``."""
    PROCESS = "process"
    """numba compiles kernels within the process."""
    BUILD = "build"
    """Kernels are not compiled yet: :mod:`.build` will do it."""


def kernel(*arguments: Type, returns: Scalar | None = None) -> Callable[[Kernel], Kernel]:
    """Compile a kernel for these argument types; without any, it is for the kernels of the same file that call it.

    Args:
        returns: type of the result; None: there is no result.
    """

    def decorate(function: Kernel) -> Kernel:
        how = How(os.environ.get(HOW_VARIABLE) or How.LIBRARY.value)
        if how is How.BUILD:
            return _to_be_built(function, arguments, returns)
        library = _library_of(function.__module__, function.__code__.co_filename) if how is How.LIBRARY else None
        if library is None:
            from cacheinf_ros.jit.compiled import compiled  # here: it loads numba

            return compiled(*arguments, returns=returns, error_model="numpy")(function)
        if not arguments:
            return function
        return cast(Kernel, LibraryKernel(function, arguments, returns, library[function.__name__]))

    return decorate


def _to_be_built(function: Kernel, arguments: tuple[Type, ...], returns: Scalar | None) -> Kernel:
    import numba  # here: it takes much memory

    dispatcher = numba.njit(nogil=True, boundscheck=False, error_model="numpy")(function)
    dispatcher.kernel_types = (arguments, returns)
    return cast(Kernel, dispatcher)


@functools.cache
def _library_of(module: str, file: str) -> ctypes.CDLL | None:
    """Load the library of a source file; returns None, with a warning, where it cannot be built."""
    try:
        if not arrays_are_as_known():
            raise OSError("this numpy keeps arrays in another way than the kernels read them")
        return ctypes.CDLL(str(find_library(Path(file)) or _built(module, Path(file))))
    except OSError as error:
        _warn_once(str(error))
        return None


@functools.cache
def _warn_once(reason: str) -> None:
    """Warn with the first of the modules that fail for this reason."""
    _log.warning("numba is loaded to compile kernels in this process, which takes 130 MB: %s", reason)


def _built(module: str, file: Path) -> Path:
    """Build the libraries of a module and its imports, return that of the file; raises :class:`OSError` if it fails."""
    find_linker()  # what cannot succeed is not begun: numba alone takes the process seconds
    new_library(file)
    _log.info("compiling the kernels of %s for this machine, once", module)
    environment = {**os.environ, HOW_VARIABLE: How.BUILD.value, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-P", "-m", "cacheinf_ros.jit.build", module]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    path = find_library(file)
    if path is None:
        said = done.stderr.strip().splitlines() or [f"the compiler ended with exit code {done.returncode}"]
        raise OSError(f"{module}: {said[-1]}")
    return path


@functools.cache
def arrays_are_as_known() -> bool:
    """Tell whether numpy lays arrays out as kernels read them, as it has since numpy 1.0 with 64-bit addresses."""
    probe = np.zeros((3, 5))
    words = (ctypes.c_int64 * (LENGTHS_AT + 1)).from_address(id(probe))
    if sys.maxsize < 2**32 or words[DATA_AT] != probe.ctypes.data:
        return False
    return tuple((ctypes.c_int64 * 2).from_address(words[LENGTHS_AT])) == probe.shape
