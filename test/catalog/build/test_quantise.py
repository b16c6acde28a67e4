# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Weights stored with fewer bits: numbers worked out by hand, the largest error, and what is stored."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from cacheinf_ros.catalog.build.techniques.quantise import pack, packed_bytes, quantised, unpack
from cacheinf_ros.errors import CatalogError


def test_eight_bits_by_hand():
    steps, scale = quantised(torch.tensor([[127.0, -63.4, 0.6], [0.0, 0.0, 0.0], [-2.54, 1.27, 0.01]]))
    assert steps.tolist() == [[127, -63, 1], [0, 0, 0], [-127, 64, 0]]
    torch.testing.assert_close(scale, torch.tensor([1.0, 1.0, 0.02]))


@given(seed=st.integers(0, 999), outputs=st.integers(1, 6), inputs=st.integers(1, 6), size=st.floats(1e-3, 1e3))
def test_a_weight_is_off_by_half_a_step_at_most(seed, outputs, inputs, size):
    torch.manual_seed(seed)
    weight = size * torch.randn(outputs, inputs, 2, 1)
    packed = pack({"w": weight}, 8)
    error = (unpack(packed)["w"] - weight).abs().flatten(1).amax(1)
    assert (error <= packed["w.scale"] * 0.5001).all()


@pytest.mark.parametrize(("bits", "size"), [(32, 80 + 8), (16, 40 + 8), (8, 20 + 4 * 4 + 8)])
def test_bytes_by_hand(bits, size):
    assert packed_bytes(pack({"w": torch.ones(4, 5), "bias": torch.ones(2)}, bits)) == size


@pytest.mark.parametrize("bits", [32, 16, 8])
def test_what_was_rounded_once_stays(bits):
    torch.manual_seed(1)
    state = {"a.weight": torch.randn(4, 3), "a.bias": torch.randn(4), "count": torch.tensor(3)}
    once = unpack(pack(state, bits))
    assert set(once) == set(state)
    assert torch.equal(once["a.bias"], state["a.bias"]) and torch.equal(once["count"], state["count"])
    assert once["a.weight"].dtype == torch.float32
    assert bits != 32 or torch.equal(once["a.weight"], state["a.weight"])


def test_a_weight_named_scale_survives():
    state = {"norm.scale": torch.randn(3, 2)}
    assert torch.equal(unpack(pack(state, 32))["norm.scale"], state["norm.scale"])


@pytest.mark.parametrize(
    ("weight", "bits", "message"),
    [
        (torch.full((1, 1), 1e6), 16, "beyond float16; use 32 or 8"),
        (torch.full((1, 1), float("nan")), 8, "weight w is not finite"),
        (torch.ones(1, 1), 4, "choose from 32, 16, 8"),
    ],
)
def test_what_does_not_fit_is_named(weight, bits, message):
    with pytest.raises(CatalogError, match=message):
        pack({"w": weight}, bits)
