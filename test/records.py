# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Tensor records for tests of placements: written by hand, and drawn at random."""

from __future__ import annotations

from hypothesis import strategies as st

from cacheinf_ros.memory import TensorRecord


def records_of(*tensors: tuple[int, int, int]) -> list[TensorRecord]:
    """Return records from tuples of (size, first, last)."""
    return [TensorRecord(size=size, first=first, last=last) for size, first, last in tensors]


def meet(one: TensorRecord, other: TensorRecord) -> bool:
    """Tell whether two tensors are ever alive at once."""
    return one.first <= other.last and other.first <= one.last


@st.composite
def _tensors(draw: st.DrawFn) -> TensorRecord:
    first = draw(st.integers(0, 12))
    return TensorRecord(size=16 * draw(st.integers(1, 9)), first=first, last=first + draw(st.integers(0, 5)))


tensor_lists = st.lists(_tensors(), max_size=14)
"""Up to 14 tensors of a few sizes, alive for a few operators each."""
