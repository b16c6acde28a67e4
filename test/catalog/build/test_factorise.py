# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Low-rank factors are exact at full rank, the best at lower ranks, and used only where they save weights."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from cacheinf_ros.catalog.build.techniques import Inapplicable
from cacheinf_ros.catalog.build.techniques.factorise import (
    factorise,
    factorised_convolution,
    factorised_linear,
    full_rank,
)

small = st.integers(1, 5)
pairs = st.tuples(st.integers(1, 3), st.integers(1, 3))


@given(
    inputs=small, outputs=small, kernel=pairs, stride=pairs, padding=st.tuples(st.integers(0, 2), st.integers(0, 2)),
    dilation=pairs, bias=st.booleans(), seed=st.integers(0, 99),
)  # fmt: skip
def test_a_convolution_of_full_rank_is_the_same(inputs, outputs, kernel, stride, padding, dilation, bias, seed):
    torch.manual_seed(seed)
    layer = nn.Conv2d(inputs, outputs, kernel, stride, padding, dilation, bias=bias)
    image = torch.randn(2, inputs, 11, 12)
    torch.testing.assert_close(
        factorised_convolution(layer, full_rank(layer))(image), layer(image), atol=1e-5, rtol=1e-4
    )


@given(inputs=small, outputs=small, bias=st.booleans(), seed=st.integers(0, 99))
def test_a_dense_layer_of_full_rank_is_the_same(inputs, outputs, bias, seed):
    torch.manual_seed(seed)
    layer = nn.Linear(inputs, outputs, bias=bias)
    values = torch.randn(3, inputs)
    torch.testing.assert_close(factorised_linear(layer, full_rank(layer))(values), layer(values), atol=1e-5, rtol=1e-4)


def test_rank_one_of_a_diagonal_keeps_its_largest_entry():
    layer = nn.Linear(2, 2, bias=False)
    with torch.no_grad():
        layer.weight.copy_(torch.tensor([[3.0, 0.0], [0.0, 1.0]]))
    product = factorised_linear(layer, 1)
    torch.testing.assert_close(product(torch.eye(2)).T, torch.tensor([[3.0, 0.0], [0.0, 0.0]]))


def test_weights_by_hand():
    """16 -> 16 kernels of 3 x 3 at n / 4: 4 * (16 * 3 + 16 * 3) = 384, not 2304; 16 -> 32 dense at n / 8: 192."""
    network = nn.Sequential(nn.Conv2d(3, 16, 1), nn.Conv2d(16, 16, 3), nn.Conv2d(16, 16, 3, groups=16))
    changed = factorise(network, 0.25, (8, 8))
    assert sum(p.numel() for p in changed[1].parameters() if p.ndim > 1) == 384
    assert isinstance(changed[2], nn.Conv2d)  # grouped: left alone
    dense = factorise(nn.Sequential(nn.Linear(16, 32), nn.Identity(), nn.ReLU()), 0.125, (8, 16))
    assert sum(p.numel() for p in dense.parameters() if p.ndim > 1) == 4 * (16 + 32)
    assert isinstance(network[1], nn.Conv2d)  # the original is left as it was


def test_what_saves_nothing_is_not_done():
    with pytest.raises(Inapplicable, match="none of its 1 inner dense layers and ungrouped convolutions has fewer"):
        factorise(nn.Sequential(nn.Linear(8, 8), nn.ReLU()), 0.5, (4, 8))  # 4 * (8 + 8) = 64 = 8 * 8


def test_the_same_network_gives_the_same_factors():
    torch.manual_seed(0)
    network = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU())
    one, other = (factorise(network, 0.25, (8, 8)).state_dict() for _ in range(2))
    assert all(torch.equal(one[name], other[name]) for name in one)


def test_what_makes_the_outputs_stays_whole():
    network = nn.Sequential(nn.Conv2d(3, 32, 1), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64))
    changed = factorise(network, 0.25, (8, 64))
    assert isinstance(changed[2], nn.Sequential) and torch.equal(changed[4].weight, network[4].weight)
