# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Tests of how placements are checked."""

from __future__ import annotations

import pytest
from hypothesis import given
from records import meet, tensor_lists

from cacheinf_ros.errors import PlanError
from cacheinf_ros.memory import Placement, TensorRecord, check


@given(records=tensor_lists)
def test_the_check_finds_every_overlap(records: list[TensorRecord]) -> None:
    """By definition a placement with all tensors at offset 0 is right if no two are ever alive at once."""
    size = max((record.size for record in records), default=0)
    together = any(meet(a, b) for i, a in enumerate(records) for b in records[:i])
    placement = Placement(offsets=(0,) * len(records), size=size)
    if together:
        with pytest.raises(PlanError, match="overlap"):
            check(records, placement)
    else:
        check(records, placement)
