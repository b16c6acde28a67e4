# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Tests of the memory of feature maps."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from cacheinf_ros.engine.buffers import MapShape, allocate_maps
from cacheinf_ros.graph.ir import Levels

CPU = torch.device("cpu")
SIZES = st.tuples(st.integers(1, 9), st.integers(1, 9))
LEVELS = st.sampled_from([None, Levels(scale=0.1, zero=3)])
FLOATS = st.sampled_from([torch.float32, torch.float16, torch.bfloat16])
shapes = st.lists(
    st.builds(MapShape, size=SIZES, channels=st.integers(1, 40), levels=LEVELS, floats=FLOATS), max_size=8
)


@given(shapes=shapes)
def test_maps_lie_in_one_block_and_do_not_overlap(shapes: list[MapShape]) -> None:
    maps = allocate_maps(shapes, CPU)
    for number, (buffer, shape) in enumerate(zip(maps, shapes, strict=True)):
        assert (buffer.size, buffer.levels, buffer.pixels.dtype) == (shape.size, shape.levels, shape.dtype)
        assert buffer.pixels.shape == (shape.size[0] * shape.size[1], shape.channels)
        assert buffer.pixels.data_ptr() % 64 == 0
        assert not buffer.pixels.any()
        buffer.pixels.fill_(number + 1)
    for number, buffer in enumerate(maps):
        assert (buffer.pixels == number + 1).all()
    assert len({buffer.pixels.untyped_storage().data_ptr() for buffer in maps}) <= 1


@pytest.mark.parametrize("dx", [-3, 0, 2])
def test_a_map_that_moved_shows_what_was_there(dx: int) -> None:
    (buffer,) = allocate_maps([MapShape(size=(4, 6), channels=2)], CPU)
    buffer.pixels.copy_(torch.arange(48).view(24, 2))
    before = buffer.image.clone()
    buffer.move(dx, 1)
    kept = slice(max(0, dx), 6 + min(0, dx))
    source = slice(max(0, -dx), 6 - max(0, dx))
    assert torch.equal(buffer.image[:, :, 1:, kept], before[:, :, :-1, source])
