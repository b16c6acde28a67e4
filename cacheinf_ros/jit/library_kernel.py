# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""A kernel in a library, and the types of what kernels take and return."""

from __future__ import annotations

import ctypes
import functools
import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np


@dataclass(frozen=True, slots=True)
class Scalar:
    """A number.

    Attributes:
        dtype: numpy's name of its type: int64, float64 or bool.
    """

    dtype: str

    @property
    def codes(self) -> str:
        """How :mod:`struct` packs it: 8 bytes, the number itself."""
        return "d" if self.dtype == "float64" else "q"

    def hand_over(self, value: Any, to: list[Any]) -> None:
        """Append what stands for a value."""
        to.append(value)


@dataclass(frozen=True, slots=True)
class Array:
    """A C-contiguous array.

    Attributes:
        dtype: numpy's name of its type.
        ndim: its dimensions.
        writable: whether the kernel writes to it; otherwise it takes read-only arrays too.
    """

    dtype: str
    ndim: int
    writable: bool = False
    _dtype: np.dtype[Any] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_dtype", np.dtype(self.dtype))

    @property
    def codes(self) -> str:
        """How :mod:`struct` packs it: 8 bytes, the address of numpy's object."""
        return "q"

    def hand_over(self, value: Any, to: list[Any]) -> None:
        """Append what stands for an array; :class:`TypeError` where it is not what the kernel was compiled for."""
        fits = isinstance(value, np.ndarray) and value.ndim == self.ndim and value.dtype == self._dtype
        if not fits or not (value.flags.c_contiguous and (value.flags.writeable or not self.writable)):
            got = f"{value.dtype} {value.shape}, {value.flags}" if isinstance(value, np.ndarray) else repr(value)
            raise TypeError(f"a kernel takes {self}, contiguous, not {got}")
        to.append(id(value))


@dataclass(frozen=True, slots=True)
class Arrays:
    """A tuple of arrays.

    Attributes:
        items: of each.
    """

    items: tuple[Array, ...]

    @property
    def codes(self) -> str:
        """Those of all items."""
        return "".join(item.codes for item in self.items)

    def hand_over(self, value: Any, to: list[Any]) -> None:
        """Append what stands for each array."""
        for item, part in zip(self.items, value, strict=True):
            item.hand_over(part, to)


Type: TypeAlias = Scalar | Array | Arrays

INT = Scalar("int64")
FLOAT = Scalar("float64")
BOOL = Scalar("bool")
FLAGS = Array("bool", 2, writable=True)
READ_ONLY_FLAGS = Array("bool", 2)
BYTES = Array("uint8", 2, writable=True)
FLOATS = Array("float64", 2, writable=True)
READ_ONLY_FLOATS = Array("float64", 2)
IMAGES = Arrays((Array("uint8", 2), Array("uint8", 2)))


class LibraryKernel:
    """A kernel in a library: called like the function it was compiled from.

    Attributes:
        __wrapped__: that function.
    """

    def __init__(self, function: Callable[..., Any], arguments: tuple[Type, ...], returns: Scalar | None, symbol: Any):
        functools.update_wrapper(self, function)
        self._arguments = arguments
        self._pack = struct.Struct("".join(argument.codes for argument in arguments)).pack
        self._symbol = symbol
        symbol.argtypes = [ctypes.c_char_p, ctypes.c_char_p]
        symbol.restype = {None: None, INT: ctypes.c_int64, FLOAT: ctypes.c_double}[returns]

    def __call__(self, *values: Any) -> Any:
        """Run; :class:`TypeError` where a value is not what the kernel was compiled for."""
        handed: list[Any] = []
        for argument, value in zip(self._arguments, values, strict=True):
            argument.hand_over(value, handed)
        packed = self._pack(*handed)
        return self._symbol(packed, packed)
