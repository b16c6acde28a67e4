"""Receptive fields: the paper's example, and brute force."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from cacheinf_ros.engine.active import ActivePlan
from cacheinf_ros.engine.kernels import ReferenceKernels, choose_kernels
from cacheinf_ros.graph.window import Window

KERNELS = [ReferenceKernels(torch.device("cpu")), choose_kernels("cpu", 1)]


@pytest.mark.parametrize("kernels", KERNELS, ids=lambda kernels: kernels.name)
@pytest.mark.parametrize("outside_is_active", [False, True])
def test_worked_example_of_deepcache(kernels: ReferenceKernels, outside_is_active: bool) -> None:
    """DeepCache section 4.3: kernel 11, stride 2, padding 5 turn (100, 100, 100, 40) into (53, 53, 45, 15).

    The paper's formula w' = floor((w - k) / s) gives 44 for the width; its example is right: the last output whose
    window ends at pixel 199 is floor((199 + 5 - 10) / 2) = 97, and 53 .. 97 are 45 outputs.
    """
    window = Window(in_size=(227, 227), out_size=(114, 114), kernel=(11, 11), stride=(2, 2), padding=(5, 5))
    plan = ActivePlan(kernels, window.in_size)
    grown = plan.grown(plan.input, window)
    plan.input.mask[100:140, 100:200] = 0
    plan.input.use_mask()
    plan.spread(outside_is_active=outside_is_active)
    expected = np.ones(window.out_size, np.uint8)
    expected[53 : 53 + 15, 53 : 53 + 45] = 0
    assert np.array_equal(grown.mask, expected)


@given(
    size=st.integers(4, 20),
    kernel=st.integers(1, 5),
    stride=st.integers(1, 3),
    dilation=st.integers(1, 2),
    seed=st.integers(0, 1000),
    outside_is_active=st.booleans(),
)
def test_outputs_stay_when_their_whole_receptive_field_is_reusable(
    size: int, kernel: int, stride: int, dilation: int, seed: int, outside_is_active: bool
) -> None:
    rng = np.random.default_rng(seed)
    padding = int(rng.integers(0, kernel // 2 + 1))
    out = (size + 2 * padding - dilation * (kernel - 1) - 1) // stride + 1
    if out < 1:
        return
    window = Window(
        in_size=(1, size), out_size=(1, out), kernel=(1, kernel), stride=(1, stride), dilation=(1, dilation),
        padding=(0, padding),
    )  # fmt: skip
    active = rng.random(size) < 0.3

    def is_active(pixel: int) -> bool:
        return bool(active[pixel]) if 0 <= pixel < size else outside_is_active

    expected = [any(is_active(o * stride - padding + k * dilation) for k in range(kernel)) for o in range(out)]
    everything = bool(active.all())
    for kernels in KERNELS:
        plan = ActivePlan(kernels, window.in_size)
        grown = plan.grown(plan.input, window)
        plan.input.mask[0] = active
        plan.input.use_mask()
        plan.spread(outside_is_active=outside_is_active)
        assert everything or grown.mask[0].astype(bool).tolist() == (
            expected if not window.is_pointwise else active.tolist()
        )


def test_sets_are_shared_and_united() -> None:
    plan = ActivePlan(KERNELS[0], (6, 6))
    same = Window(in_size=(6, 6), out_size=(6, 6), kernel=(3, 3), padding=(1, 1))
    grown = plan.grown(plan.input, same)
    assert plan.grown(plan.input, same) is grown
    assert plan.grown(grown, Window(in_size=(6, 6), out_size=(6, 6), kernel=(1, 1))) is grown
    united = plan.united([plan.input, grown])
    assert plan.united([grown, plan.input]) is united
    assert plan.united([grown, grown]) is grown
    plan.input.mask[:] = 0
    plan.input.mask[2, 2] = 1
    plan.input.use_mask()
    plan.spread(outside_is_active=False)
    assert (plan.input.count, grown.count, united.count) == (1, 9, 9)
    assert np.array_equal(united.rows, np.flatnonzero(united.mask))
