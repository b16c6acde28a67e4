# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Compile inner loops within the process: those that allocate or recurse, where numba may be loaded.

Entry points are given a signature: they compile when they are imported (or load from numba's cache on disk, which takes
milliseconds), never in mid-stream. Inputs are typed read-only, which also takes writable arrays. The interpreter's lock
is released while they run, so that the other threads of a node go on.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, TypeVar, cast

import numba
import numpy as np

from cacheinf_ros.jit.library_kernel import Array, Arrays, Type

Kernel = TypeVar("Kernel", bound=Callable[..., Any])
_NO_PLACE = "no locator available"  # in what numba raises where it finds no folder for its cache
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Record:
    """A tuple of values of different types.

    Attributes:
        items: types of the values; an array among them must be writable exactly where its type says so.
    """

    items: tuple[Type, ...]


def compiled(
    *arguments: Type | Record, returns: Type | None = None, error_model: str = "python"
) -> Callable[[Kernel], Kernel]:
    """Compile a function for these argument types now; without any, when a compiled function first calls it.

    Args:
        returns: type of the result; None: there is no result.
        error_model: error model of numba; "numpy" does not raise on division by zero.
    """
    signature = numba_type(returns)(*map(numba_type, arguments)) if arguments else None

    def decorate(function: Kernel) -> Kernel:
        jit = partial(numba.njit, signature, nogil=True, boundscheck=False, error_model=error_model)
        try:
            return cast(Kernel, jit(cache=True)(function))
        except RuntimeError as error:  # numba has no class of its own for it
            if _NO_PLACE not in str(error):
                raise
            _warn_of_no_cache()
            return cast(Kernel, jit(cache=False)(function))

    return decorate


@cache
def _warn_of_no_cache() -> None:
    """Warn with the first of the functions that cannot be kept."""
    _log.warning(
        "inner loops are compiled anew at every start, which takes up to half a minute: neither the folder of the "
        "package nor the user's cache can be written to; set XDG_CACHE_HOME to a folder that can"
    )


def numba_type(of: Type | Record | None) -> Any:
    """Return numba's counterpart of a type."""
    match of:
        case None:
            return numba.types.void
        case Array():
            return numba.types.Array(numba.from_dtype(np.dtype(of.dtype)), of.ndim, "C", readonly=not of.writable)
        case Record() | Arrays():
            return numba.types.BaseTuple.from_types([numba_type(item) for item in of.items])
        case _:
            return numba.from_dtype(np.dtype(of.dtype))
