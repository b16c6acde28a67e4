# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Launches can be noted instead of made, and each variant of a kernel that they need is compiled once."""

from __future__ import annotations

import threading
from contextlib import nullcontext
from typing import Any

import pytest
import torch

from cacheinf_ros.engine.gpu.kernel_launches import compile_together, launch, noted_launches

GPU = torch.device("cuda", 0)  # the machine need not have one


class Kernel:
    """Notes what it is launched and compiled with, as a function that ``triton.jit`` returned would be."""

    def __init__(self, *, is_broken: bool = False) -> None:
        self.is_broken = is_broken
        self.launched: list[tuple[Any, ...]] = []
        self.compiled: list[tuple[Any, ...]] = []

    def __getitem__(self, grid: tuple[int, ...]) -> Any:
        return lambda *arguments, **constants: self.launched.append((grid, arguments, constants))

    def warmup(self, *arguments: Any, grid: tuple[int, ...], **constants: Any) -> None:
        self.compiled.append((grid, arguments, constants))
        if self.is_broken:
            raise RuntimeError("does not compile")


def test_launches_are_noted_only_within_the_context_and_only_those_of_its_thread() -> None:
    kernel, expected = Kernel(), ((2,), (3, 4.0), {"SIZE": 5})
    launch(kernel, (2,), 3, 4.0, SIZE=5)
    assert kernel.launched == [expected]
    with noted_launches() as launches:
        launch(kernel, (2,), 3, 4.0, SIZE=5)
        other = threading.Thread(target=launch, args=(kernel, (1,)))
        other.start()
        other.join()
    assert [(each.grid, each.arguments, each.constants) for each in launches] == [expected]
    assert kernel.launched == [expected, ((1,), (), {})]
    launch(kernel, (2,), 3, 4.0, SIZE=5)
    assert kernel.launched[-1] == expected and len(launches) == 1


def test_each_variant_is_compiled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "device", nullcontext)
    kernel, other = Kernel(), Kernel()
    values = torch.zeros(64)
    with noted_launches() as launches:
        for arguments in (
            (values, 32), (torch.ones(8), 48),  # one variant: what they are divisible by is the same
            (values, 33), (values, 1), (values[1:], 32), (values.half(), 32), (values, 32.0),
        ):  # fmt: skip
            launch(kernel, (7,), *arguments, SIZE=5)
        launch(kernel, (7,), values, 32, SIZE=6)
        launch(other, (7,), values, 32, SIZE=5)
    compile_together(launches, GPU)
    assert (len(kernel.compiled), len(other.compiled)) == (7, 1)
    assert not kernel.launched and not other.launched


def test_a_kernel_that_does_not_compile_is_left_to_its_launch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "device", nullcontext)
    broken, sound = Kernel(is_broken=True), Kernel()
    with noted_launches() as launches:
        launch(broken, (1,))
        launch(sound, (1,))
    compile_together(launches, GPU)
    assert broken.compiled and sound.compiled
