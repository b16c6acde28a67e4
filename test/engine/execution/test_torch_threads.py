# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Steps that torch computes take one thread where they do little, unnoticed by the rest of the process."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from cacheinf_ros.engine.execution.torch_threads import in_torch_threads, is_light, threads_for
from cacheinf_ros.graph.fusing.global_rewrites import Sequence
from cacheinf_ros.graph.ir import Global, TensorRef, TensorSpec


def operator(call: Any, target: str = "") -> Global:
    return Global(
        name="a", inputs=("x",), output="y", call=call, arguments=(TensorRef("x"),), target=target or str(call)
    )


def specs(pixels: int) -> dict[str, TensorSpec]:
    return {name: TensorSpec(name=name, shape=(1, 64, pixels, 1)) for name in "xy"}


SOFTMAX = operator(torch.ops.aten.softmax.int)
BMM = operator(torch.ops.aten.bmm.default)


@pytest.mark.parametrize(
    ("of", "pixels", "light"),
    [
        (SOFTMAX, 8400, True),
        (SOFTMAX, 100_000, False),
        (BMM, 8, False),
        (operator(Sequence(("x",), (SOFTMAX, SOFTMAX))), 8400, True),
        (operator(Sequence(("x",), (SOFTMAX, BMM))), 8400, False),
    ],
)
def test_what_reads_and_writes_little_and_multiplies_nothing_is_light(of: Global, pixels: int, *, light: bool) -> None:
    assert is_light(of, specs(pixels)) is light


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_threads_are_as_before_when_a_step_has_ended(threads: int) -> None:
    before, seen = torch.get_num_threads(), []
    torch.set_num_threads(3)

    def step(*, fails: bool) -> str:
        seen.append(torch.get_num_threads())
        if fails:
            raise ValueError("told")
        return "done"

    try:
        limited = in_torch_threads(step, threads)
        assert limited(fails=False) == "done"
        with pytest.raises(ValueError, match="told"):
            limited(fails=True)
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)
    assert seen == [threads, threads]


def test_light_operators_get_one_thread() -> None:
    assert threads_for(SOFTMAX, specs(8400), 4) == 1
    assert threads_for(BMM, specs(8400), 4) == 4
