# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Resizing, padding, pixel shuffle and the mean of all pixels: compiled kernels equal the reference and torch."""

from __future__ import annotations

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st
from row_kernels import CHANNELS, SIZES, check, filled, native_calls, run_native
from torch.nn import functional

from cacheinf_ros.graph.ir import GlobalMean, PixelShuffle, Resample
from cacheinf_ros.graph.taps import OUTSIDE, AxisTaps
from cacheinf_ros.graph.window import Pair

SEEDS = st.integers(0, 1000)


def _random_taps(in_size: int, out_size: int, taps: int, seed: int) -> AxisTaps:
    generator = np.random.default_rng(seed)
    index = generator.integers(OUTSIDE, in_size, (out_size, taps)).astype(np.int32)
    weight = np.where(index == OUTSIDE, 0, generator.normal(size=index.shape))
    return AxisTaps(index=torch.from_numpy(index), weight=torch.from_numpy(weight).float(), in_size=in_size)


def _matrix(taps: AxisTaps) -> torch.Tensor:
    """Return the taps of an axis as a matrix [out_size, in_size]."""
    matrix = torch.zeros(taps.out_size, taps.in_size + 1)
    matrix.scatter_add_(1, taps.index.long() % (taps.in_size + 1), taps.weight)  # OUTSIDE becomes the last column
    return matrix[:, :-1]


@given(size=SIZES, out=SIZES, taps=st.tuples(st.integers(1, 4), st.integers(2, 4)), channels=CHANNELS, seed=SEEDS)
def test_taps_are_a_product_with_matrices(size: Pair, out: Pair, taps: Pair, channels: int, seed: int) -> None:
    source = filled(size, channels, seed)
    rows, columns = (_random_taps(size[i], out[i], taps[i], seed + i) for i in (0, 1))
    op = Resample(name="r", inputs=("x",), output="y", rows=rows, columns=columns)
    check(op, [source], _matrix(rows) @ source.image @ _matrix(columns).t(), seed=seed)


@given(
    size=SIZES,
    border=st.tuples(*[st.integers(0, 4)] * 4),
    fill=st.sampled_from([0.0, 7.5, float("-inf")]),
    channels=CHANNELS,
    seed=SEEDS,
)
def test_padding_with_a_constant(
    size: Pair, border: tuple[int, int, int, int], fill: float, channels: int, seed: int
) -> None:
    source = filled(size, channels, seed)
    left, right, top, bottom = border
    rows, columns = (
        AxisTaps(
            index=functional.pad(torch.arange(n, dtype=torch.int32), (before, after), value=OUTSIDE)[:, None],
            weight=torch.ones(n + before + after, 1), in_size=n,
        )
        for n, before, after in ((size[0], top, bottom), (size[1], left, right))
    )  # fmt: skip
    op = Resample(name="r", inputs=("x",), output="y", rows=rows, columns=columns, fill=fill)
    check(op, [source], functional.pad(source.image, border, value=fill), seed=seed, error=0.0)


@given(size=SIZES, factor=st.integers(1, 4), channels=st.integers(1, 20), phase_major=st.booleans(), seed=SEEDS)
def test_pixel_shuffle(size: Pair, factor: int, channels: int, phase_major: bool, seed: int) -> None:
    source = filled(size, channels * factor**2, seed)
    image = source.image
    if phase_major:
        image = image.unflatten(1, (factor**2, channels)).transpose(1, 2).flatten(1, 2)
    op = PixelShuffle(name="s", inputs=("x",), output="y", factor=factor, phase_major=phase_major)
    check(op, [source], functional.pixel_shuffle(image, factor), seed=seed, error=0.0)


@given(size=st.tuples(st.integers(1, 90), st.integers(1, 90)), channels=CHANNELS, seed=SEEDS)
def test_mean_of_all_pixels(size: Pair, channels: int, seed: int) -> None:
    source = filled(size, channels, seed)
    source.pixels.add_(3.0)
    op = GlobalMean(name="m", inputs=("x",), output="y")
    check(op, [source], source.image.double().mean((2, 3), keepdim=True).float(), seed=seed, error=2e-6)


def test_mean_is_the_same_with_any_number_of_threads() -> None:
    source = filled((200, 150), 48, 0)
    row = np.zeros(1, np.int32)
    op = GlobalMean(name="m", inputs=("x",), output="y")
    calls = list(native_calls(op, [source], 48))
    means = [run_native(kernels, call, row, row, 1, 48) for kernels, call in calls for _ in range(5)]
    assert all(torch.equal(mean, means[0]) for mean in means)
