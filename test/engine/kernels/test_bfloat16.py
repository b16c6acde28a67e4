# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The convolution in bfloat16: exactly the float one of rounded inputs and weights, but for the order of its sums."""

from __future__ import annotations

import logging
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from networks.shared_models import small_scenenet
from row_kernels import HAS_BFLOAT16, filled, run_native, windows

from cacheinf_ros.engine import Engine, EngineConfig, Precision
from cacheinf_ros.engine.backends import NativeBackend, choose_backend
from cacheinf_ros.engine.kernels.abi import KernelKind
from cacheinf_ros.graph.activation import Activation
from cacheinf_ros.graph.ir import Conv
from cacheinf_ros.graph.window import Window

needs_bfloat16 = pytest.mark.skipif(not HAS_BFLOAT16, reason="this processor does not multiply bfloat16")


def rounded(values: torch.Tensor) -> torch.Tensor:
    return values.to(torch.bfloat16).float()


@needs_bfloat16
@given(
    window=windows(largest=3),
    groups=st.sampled_from([1, 2]),
    inputs=st.sampled_from([1, 3, 16, 32, 40]),
    outputs=st.sampled_from([33, 64, 70]),
    seed=st.integers(0, 1000),
)
def test_equals_the_float_kernel_on_rounded_values(
    window: Window, groups: int, inputs: int, outputs: int, seed: int
) -> None:
    torch.manual_seed(seed)
    scale = (inputs * window.kernel[0] * window.kernel[1]) ** -0.5
    op = Conv(
        name="conv", inputs=("x",), output="y", window=window, groups=groups, activation=Activation.relu(),
        weight=torch.randn(groups * outputs, inputs, *window.kernel) * scale, bias=torch.randn(groups * outputs),
    )  # fmt: skip
    source = filled(window.in_size, groups * inputs, seed)
    kernels = choose_backend("cpu", 2, Precision.BFLOAT16)
    assert isinstance(kernels, NativeBackend) and "bfloat16" in kernels.name
    call = kernels.prepare(op, [source], groups * outputs).call
    assert call is not None and call.kind is KernelKind.CONV_BFLOAT16
    rows = np.arange(window.out_size[0] * window.out_size[1], dtype=np.int32)
    ours = run_native(kernels, call, rows, rows, len(rows), groups * outputs)

    plain = choose_backend("cpu", 1)
    assert isinstance(plain, NativeBackend)
    source.pixels.copy_(rounded(source.pixels))
    exact = plain.prepare(replace(op, weight=rounded(op.weight)), [source], groups * outputs).call
    assert exact is not None
    torch.testing.assert_close(
        ours, run_native(plain, exact, rows, rows, len(rows), groups * outputs), atol=1e-4, rtol=1e-4
    )


@needs_bfloat16
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
