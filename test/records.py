# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Records by hand."""

from __future__ import annotations

from cacheinf_ros.memory import TensorRecord


def records_of(*tensors: tuple[int, int, int]) -> list[TensorRecord]:
    """Of (size, first, last) each."""
    return [TensorRecord(size=size, first=first, last=last) for size, first, last in tensors]


def meet(one: TensorRecord, other: TensorRecord) -> bool:
    """Whether both are ever alive at once."""
    return one.first <= other.last and other.first <= one.last
