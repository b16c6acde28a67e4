# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Steps that torch computes take one thread where they do little, unnoticed by the rest of the process."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from cacheinf_ros.engine.execution.torch_threads import by_few_threads, is_light
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


def test_threads_are_as_before_when_a_step_has_ended() -> None:
    before, seen = torch.get_num_threads(), []
    torch.set_num_threads(3)

    def step(*, fails: bool) -> None:
        seen.append(torch.get_num_threads())
        if fails:
            raise ValueError("told")

    try:
        alone = by_few_threads(step, SOFTMAX, specs(8400))
        alone(fails=False)
        with pytest.raises(ValueError, match="told"):
            alone(fails=True)
        assert torch.get_num_threads() == 3
        assert by_few_threads(step, BMM, specs(8400)) is step
    finally:
        torch.set_num_threads(before)
    assert seen == [1, 1]
