# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Parameters of compiled kernels for inputs that lie elsewhere."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from ctypes import Structure, c_uint64, c_void_p

_INPUTS = ("in", "a", "b", "residual")  # what structures call the pointers to maps, in the order of the inputs


def with_moved_inputs(params: Structure, distances: Sequence[int]) -> Structure:
    """A copy of a kernel's parameters: its first input lies so many bytes further on, its second so many more, if any.

    Only what kernels read has to lie in memory: a map may begin outside of it.
    """
    moved = type(params).from_buffer_copy(params)
    for offset, distance in zip(_pointers(type(params)), (distances[0], distances[-1]), strict=False):
        pointer = c_uint64.from_buffer(moved, offset)
        if pointer.value:
            pointer.value += distance
    return moved


def _pointers(kind: type[Structure], start: int = 0) -> Iterator[int]:
    """Where a structure, or one inside it, has its pointers to maps."""
    for name, field, *_ in kind._fields_:
        offset = start + getattr(kind, name).offset
        if issubclass(field, Structure):
            yield from _pointers(field, offset)
        elif field is c_void_p and name in _INPUTS:
            yield offset
