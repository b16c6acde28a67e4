# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Trained weights are full of denormal numbers: compiled kernels take them for zero in all threads, but only there."""

from __future__ import annotations

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st
from row_kernels import CHANNELS, SIZES, filled, native_calls, run_native

from cacheinf_ros.graph.ir import Combine, Conv, Elementwise, Operator
from cacheinf_ros.graph.window import Pair, Window

_LEAST = 2.0**-126  # the smallest normal number


def _results(op: Operator, size: Pair, channels: int, seed: int) -> list[torch.Tensor]:
    source = filled(size, channels, seed)
    rows = np.arange(size[0] * size[1], dtype=np.int32)
    return [
        run_native(kernels, call, rows, rows, len(rows), channels)
        for kernels, call in native_calls(op, [source], channels)
    ]


@given(size=SIZES, channels=CHANNELS, seed=st.integers(0, 1000), factor=st.floats(-0.999, 0.999))
def test_denormal_weights_are_zero(size: Pair, channels: int, seed: int, factor: float) -> None:
    weight = torch.full((channels, channels, 1, 1), factor * _LEAST)
    conv = Conv(
        name="c",
        inputs=("x",),
        output="y",
        weight=weight,
        bias=torch.ones(channels),
        window=Window(in_size=size, out_size=size, kernel=(1, 1)),
        groups=1,
    )
    assert all(bool((result == 1).all()) for result in _results(conv, size, channels, seed))


@given(size=SIZES, channels=CHANNELS, seed=st.integers(0, 1000))
def test_what_becomes_denormal_is_zero_and_the_caller_computes_as_before(size: Pair, channels: int, seed: int) -> None:
    scale = torch.full((channels,), 1e-40)
    op = Elementwise(name="e", inputs=("x",), output="y", scale=scale)
    assert all(not bool(result.any()) for result in _results(op, size, channels, seed))
    tiny = Elementwise(
        name="e", inputs=("x", "x"), output="y", combine=Combine.MUL, scale=torch.full((channels,), 2e-38)
    )
    for result in _results(tiny, size, channels, seed):
        assert not bool(((result != 0) & (result.abs() < _LEAST)).any())
    assert np.float32(1e-38) * np.float32(0.1) > 0
