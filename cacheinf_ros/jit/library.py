# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Inner loops compiled into a library of their own, one for each source file, on the machine that they run on.

numba takes 130 MB of every process that loads it, even where its kernels come from its cache: more than all the rest
of a matcher. So a process of its own (:mod:`.build`) compiles the kernels of a package into libraries, once, which are
then loaded with ctypes. Where that cannot be done (no linker), numba compiles in the process itself: the same results.

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
from cacheinf_ros.jit.places import find_library

Kernel = TypeVar("Kernel", bound=Callable[..., Any])
HOW_VARIABLE = "CACHEINF_KERNELS"
_log = logging.getLogger(__name__)

# Where numpy's C interface (PyArrayObject) says that an array's fields lie, in units of 8 bytes.
DATA_AT = object.__basicsize__ // 8
LENGTHS_AT = DATA_AT + 2


class How(Enum):
    """Values of the environment variable ``CACHEINF_KERNELS``."""

    LIBRARY = "library"
    """From a library, which is built where there is none; where it cannot be built, as ``process``."""
    PROCESS = "process"
    """numba compiles within the process."""
    BUILD = "build"
    """Not at all yet: for :mod:`.build`."""


def kernel(*arguments: Type, returns: Scalar | None = None) -> Callable[[Kernel], Kernel]:
    """Compile for these argument types; without any: for the kernels of the same file that call it.

    Args:
        returns: the result's type; None: there is none.
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
    """The library of a source file; None, with a warning, where it cannot be built."""
    try:
        if not arrays_are_as_known():
            raise OSError("this numpy keeps arrays in another way than the kernels read them")
        return ctypes.CDLL(str(find_library(Path(file)) or _built(module, Path(file))))
    except OSError as error:
        _log.warning("numba is loaded to compile the kernels of %s, which takes 130 MB: %s", module, error)
        return None


def _built(module: str, file: Path) -> Path:
    """Build the libraries of the module and of those that it is imported with; :class:`OSError` where that fails."""
    _log.info("compiling the kernels of %s for this machine, once", module)
    environment = {**os.environ, HOW_VARIABLE: How.BUILD.value, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-P", "-m", "cacheinf_ros.jit.build", module]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    path = find_library(file)
    if path is None:
        said = done.stderr.strip().splitlines() or [f"the compiler ended with exit code {done.returncode}"]
        raise OSError(said[-1])
    return path


@functools.cache
def arrays_are_as_known() -> bool:
    """Whether numpy's objects are as kernels read them: they have been since numpy 1.0, with 64-bit addresses."""
    probe = np.zeros((3, 5))
    words = (ctypes.c_int64 * (LENGTHS_AT + 1)).from_address(id(probe))
    if sys.maxsize < 2**32 or words[DATA_AT] != probe.ctypes.data:
        return False
    return tuple((ctypes.c_int64 * 2).from_address(words[LENGTHS_AT])) == probe.shape
