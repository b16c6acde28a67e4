"""How inner loops are compiled.

Entry points are given a signature: they compile when they are imported (or load from numba's cache on disk, which takes
milliseconds), never in mid-stream. Inputs are typed read-only, which also takes writable arrays. The interpreter's lock
is released while they run, so that the other threads of a node go on.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba

Kernel = TypeVar("Kernel", bound=Callable[..., Any])

types: Any = numba.types  # numba declares only a part of them

INT = types.int64
FLOAT = types.float64
FLAGS = types.boolean[:, ::1]
READ_ONLY_FLAGS = types.Array(types.boolean, 2, "C", readonly=True)
BYTES = types.uint8[:, ::1]
FLOATS = types.float64[:, ::1]
READ_ONLY_FLOATS = types.Array(types.float64, 2, "C", readonly=True)
IMAGES = types.UniTuple(types.Array(types.uint8, 2, "C", readonly=True), 2)


def compiled(*arguments: Any, returns: Any = types.void) -> Callable[[Kernel], Kernel]:
    """Compile for these argument types, now; without any, when a compiled function first calls it."""
    signature = returns(*arguments) if arguments else None
    return cast(Callable[[Kernel], Kernel], numba.njit(signature, nogil=True, cache=True, boundscheck=False))
