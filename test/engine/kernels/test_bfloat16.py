# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Kernels on bfloat16 equal those on floats of the same values, but for the order of sums and the final rounding.

Windows, resampling and single pixels are checked together with the float kernels (``row_kernels.check``).
"""

from __future__ import annotations

import logging

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from networks.shared_models import small_scenenet
from row_kernels import NATIVE, check_bfloat16, filled, in_bfloat16, run_native, windows

from cacheinf_ros.engine import Engine, EngineConfig, Precision
from cacheinf_ros.engine.backends import choose_backend
from cacheinf_ros.graph.activation import Activation
from cacheinf_ros.graph.ir import Conv, Convert, Elementwise
from cacheinf_ros.graph.window import Window

needs_kernels = pytest.mark.skipif(not NATIVE, reason="the compiled kernels are not built")


@needs_kernels
@settings(max_examples=40)
@given(
    window=windows(largest=3),
    groups=st.sampled_from([1, 2]),
    inputs=st.sampled_from([1, 3, 16, 32, 41]),
    outputs=st.sampled_from([5, 33, 64, 70]),
    has_residual=st.booleans(),
    seed=st.integers(0, 1000),
)
def test_it_may_write_floats(
    window: Window, groups: int, inputs: int, outputs: int, has_residual: bool, seed: int
) -> None:
    torch.manual_seed(seed)
    scale = (inputs * window.kernel[0] * window.kernel[1]) ** -0.5
    op = Conv(
        name="conv", inputs=("x", "r") if has_residual else ("x",), output="y", window=window, groups=groups,
        activation=Activation.relu(), weight=torch.randn(groups * outputs, inputs, *window.kernel) * scale,
        bias=torch.randn(groups * outputs),
    )  # fmt: skip
    sources = [filled(window.in_size, groups * inputs, seed), filled(window.out_size, groups * outputs, seed)]
    pixels = window.out_size[0] * window.out_size[1]
    halves = [in_bfloat16(source, seed) for source in sources[: len(op.inputs)]]
    check_bfloat16(op, halves, np.arange(pixels, dtype=np.int32), (pixels, groups * outputs), torch.float32)


@needs_kernels
@given(channels=st.integers(1, 70), seed=st.integers(0, 1000))
def test_conversions_round_as_torch(channels: int, seed: int) -> None:
    kernels, rows, op = NATIVE[0], np.arange(12, dtype=np.int32), Convert(name="c", inputs=("x",), output="y")
    source = filled((3, 4), channels, seed)
    for floats in (torch.bfloat16, torch.float32):
        call = kernels.prepare(op, [source], channels, floats).call
        assert call is not None
        ours = run_native(kernels, call, rows, rows, 12, channels, floats=floats)
        assert torch.equal(ours, source.pixels.to(floats))
        source = in_bfloat16(source, seed)


@needs_kernels
def test_other_operators_read_and_write_one_type() -> None:
    op = Elementwise(name="e", inputs=("x",), output="y")
    with pytest.raises(TypeError, match="not computed on"):
        NATIVE[0].prepare(op, [in_bfloat16(filled((3, 4), 5, 0), 0)], 5)


@needs_kernels
def test_an_engine_of_this_precision_is_near_the_exact_one() -> None:
    model = small_scenenet()
    image = np.random.default_rng(0).integers(0, 256, (96, 128, 3), np.uint8)
    exact, ours = (
        Engine(model, EngineConfig(precision=precision)).run(image, None).outputs
        for precision in (Precision.FLOAT32, Precision.BFLOAT16)
    )
    for name, value in exact.items():
        error = np.sqrt(np.mean((ours[name] - value) ** 2)) / value.std()
        assert 1e-5 < error < 0.05


def test_a_machine_without_it_says_so(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cacheinf_ros.engine.backends.backend_choice.kernel_library", lambda: None)
    with caplog.at_level(logging.WARNING):
        choose_backend("cpu", 1, Precision.BFLOAT16)
    assert any("computing in float32" in message for message in caplog.messages)
