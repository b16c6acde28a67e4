# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Programs that take several blocks of pixels in turn compute the same as one program for each block."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from row_kernels import filled
from torch.nn import functional
from triton_devices import DEVICE, KERNELS, on_test_device

from cacheinf_ros.engine.gpu.pixel_launch import Tiles, product_depth
from cacheinf_ros.graph.activation import LINEAR
from cacheinf_ros.graph.ir import Conv
from cacheinf_ros.graph.window import Window

WINDOW = Window(in_size=(20, 23), out_size=(20, 23), kernel=(3, 3), padding=(1, 1))


@pytest.mark.parametrize(("inputs", "groups"), [(3, 1), (24, 1), (16, 2)])  # taps together; a partial last depth
@pytest.mark.parametrize("listed", [1, 15, 33, 460])
def test_blocks_in_turn(inputs: int, groups: int, listed: int) -> None:
    """Three programs of 16 pixels take up to ten turns, in the last of which some have no pixels left."""
    torch.manual_seed(0)
    weight = torch.randn(groups * 20, inputs, 3, 3)
    op = Conv(
        name="c", inputs=("x",), output="y", window=WINDOW, groups=groups, weight=weight, bias=torch.randn(groups * 20),
        activation=LINEAR,
    )  # fmt: skip
    source = filled(WINDOW.in_size, groups * inputs, 0)
    launch = KERNELS.prepare(op, [on_test_device(source)], groups * 20)
    assert launch is not None
    launch = replace(launch, pixels=16, most_programs=3)
    rows = torch.randperm(460)[:listed].to(torch.int32)
    padded = torch.cat([rows, torch.zeros(460 - listed, dtype=torch.int32)]).to(DEVICE)
    out = torch.full((460, groups * 20), 7.0, device=DEVICE)
    launch(padded, torch.tensor([listed], dtype=torch.int32, device=DEVICE), out, most=460)
    dense = functional.conv2d(source.image, weight, op.bias, padding=1, groups=groups)[0].flatten(1).t()
    torch.testing.assert_close(out.cpu()[rows.long()], dense[rows.long()], atol=1e-4, rtol=1e-4)
    others = torch.ones(460, dtype=torch.bool)
    others[rows.long()] = False
    assert bool((out.cpu()[others] == 7.0).all())


@pytest.mark.parametrize(
    ("inputs", "taps", "value_bytes", "expected"),
    [(3, 49, 2, (False, 64)), (3, 49, 4, (False, 32)), (3, 1, 2, (False, 16)), (24, 9, 2, (True, 16)),
     (512, 9, 2, (True, 64))],
)  # fmt: skip
def test_how_much_is_multiplied_at_a_time(inputs: int, taps: int, value_bytes: int, expected: tuple[bool, int]) -> None:
    """The depth is at most 128 bytes, a power of two no larger than what there is to multiply, and at least 16."""
    assert product_depth(inputs, taps, Tiles(), value_bytes) == expected
