# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Kernels that are called in a library, and the types of what they take and return."""

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
    """The type of a number.

    Attributes:
        dtype: numpy's name of its type: int64, float64 or bool.
    """

    dtype: str

    @property
    def codes(self) -> str:
        """The format by which :mod:`struct` packs a number: the number itself, in 8 bytes."""
        return "d" if self.dtype == "float64" else "q"

    def hand_over(self, value: Any, to: list[Any]) -> None:
        """Append the number that is packed for a value."""
        to.append(value)


@dataclass(frozen=True, slots=True)
class Array:
    """The type of a C-contiguous array.

    Attributes:
        dtype: numpy's name of its type.
        ndim: number of dimensions.
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
        """The format by which :mod:`struct` packs an array: the address of numpy's object, in 8 bytes."""
        return "q"

    def hand_over(self, value: Any, to: list[Any]) -> None:
        """Append the address of an array; raises :class:`TypeError` where the kernel is compiled for other arrays."""
        fits = isinstance(value, np.ndarray) and value.ndim == self.ndim and value.dtype == self._dtype
        if not fits or not (value.flags.c_contiguous and (value.flags.writeable or not self.writable)):
            got = f"{value.dtype} {value.shape}, {value.flags}" if isinstance(value, np.ndarray) else repr(value)
            raise TypeError(f"a kernel takes {self}, contiguous, not {got}")
        to.append(id(value))


@dataclass(frozen=True, slots=True)
class Arrays:
    """The type of a tuple of arrays.

    Attributes:
        items: type of each array.
    """

    items: tuple[Array, ...]

    @property
    def codes(self) -> str:
        """The formats of all arrays, by which :mod:`struct` packs them."""
        return "".join(item.codes for item in self.items)

    def hand_over(self, value: Any, to: list[Any]) -> None:
        """Append the address of each array; raises :class:`TypeError` as :meth:`Array.hand_over` does."""
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
        __wrapped__: the function that it was compiled from.
    """

    def __init__(self, function: Callable[..., Any], arguments: tuple[Type, ...], returns: Scalar | None, symbol: Any):
        functools.update_wrapper(self, function)
        self._arguments = arguments
        self._pack = struct.Struct("".join(argument.codes for argument in arguments)).pack
        self._symbol = symbol
        symbol.argtypes = [ctypes.c_char_p, ctypes.c_char_p]
        symbol.restype = {None: None, INT: ctypes.c_int64, FLOAT: ctypes.c_double}[returns]

    def __call__(self, *values: Any) -> Any:
        """Run the kernel; raises :class:`TypeError` where it was not compiled for such a value."""
        handed: list[Any] = []
        for argument, value in zip(self._arguments, values, strict=True):
            argument.hand_over(value, handed)
        packed = self._pack(*handed)
        return self._symbol(packed, packed)
