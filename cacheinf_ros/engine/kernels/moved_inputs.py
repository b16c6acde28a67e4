# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Adapts the parameters of compiled kernels to inputs that have been moved in memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from ctypes import Structure, c_uint64, c_void_p

_INPUTS = ("in", "a", "b", "residual")  # what structures call the pointers to maps, in the order of the inputs


def with_moved_inputs(params: Structure, distances: Sequence[int]) -> Structure:
    """Return a copy of a kernel's parameters whose inputs lie elsewhere.

    Only what kernels read has to lie in allocated memory: a map may begin outside of it.

    Args:
        params: the parameters.
        distances: for each input, by how many bytes it lies further on.
    """
    moved = type(params).from_buffer_copy(params)
    for offset, distance in zip(_pointers(type(params)), (distances[0], distances[-1]), strict=False):
        pointer = c_uint64.from_buffer(moved, offset)
        if pointer.value:
            pointer.value += distance
    return moved


def _pointers(kind: type[Structure], start: int = 0) -> Iterator[int]:
    """Yield the offsets in bytes of the pointers to maps in a structure and in those nested inside it."""
    for name, field, *_ in kind._fields_:
        offset = start + getattr(kind, name).offset
        if issubclass(field, Structure):
            yield from _pointers(field, offset)
        elif field is c_void_p and name in _INPUTS:
            yield offset
