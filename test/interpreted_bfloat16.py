# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""A repair of bfloat16 in Triton's interpreter while tests run; compilers and GPUs need none.

numpy has no bfloat16, so the interpreter keeps its bits as uint16. Triton 3.7.1 truncates where GPUs round to the
nearest, and ``tl.dot`` multiplies the bits as if they were numbers. ``np.matmul``, with which it multiplies, may also
round a row of a tile differently depending on its place in the tile (OpenBLAS on Zen 5), which no GPU does.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import triton.language as tl
from numpy.typing import NDArray
from triton.runtime.interpreter import InterpreterBuilder, TensorHandle

_cast, _dot = InterpreterBuilder.cast_impl, InterpreterBuilder.create_dot


def repair() -> None:
    """Let the interpreter convert and multiply bfloat16 as GPUs do; calling this again changes nothing."""
    InterpreterBuilder.cast_impl = _repaired_cast
    InterpreterBuilder.create_dot = _repaired_dot


def widened(bits: NDArray[np.uint16]) -> NDArray[np.float32]:
    """Return the float32 values whose upper 16 bits are given."""
    return (bits.astype(np.uint32) << 16).view(np.float32)


def rounded(values: NDArray[np.float32]) -> NDArray[np.uint16]:
    """Return the bits of the nearest bfloat16 values, ties rounded to even."""
    halves = torch.from_numpy(np.array(values, np.float32)).to(torch.bfloat16)
    return halves.view(torch.int16).numpy().view(np.uint16)


def _repaired_cast(self: Any, src: Any, dst_type: Any) -> Any:
    types = src.dtype.scalar, dst_type.scalar
    if types == (tl.bfloat16, tl.float32):
        return TensorHandle(widened(src.data), tl.float32)
    if types == (tl.float32, tl.bfloat16):
        return TensorHandle(rounded(src.data), tl.bfloat16)
    return _cast(self, src, dst_type)


def _repaired_dot(self: Any, a: Any, b: Any, d: Any, *options: Any) -> Any:
    a, b = (TensorHandle(widened(x.data), tl.float32) if x.dtype.scalar == tl.bfloat16 else x for x in (a, b))
    if a.data.ndim != 2 or a.data.dtype != np.float32:
        return _dot(self, a, b, d, *options)
    return TensorHandle(np.einsum("ik,kj->ij", a.data, b.data) + d.data, d.dtype.scalar)
