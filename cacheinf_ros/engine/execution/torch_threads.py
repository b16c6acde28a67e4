# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Runs what torch computes in as many threads as the user allows, not in one for each core as torch does by itself.

Light steps of the compiled program get a single one, as that program's own threads stay awake between its steps. Where
both have as many threads as there are cores, the operating system may let a thread that torch wakes wait for a
time slice, 4 ms, behind a thread of the compiled program that only waits. Work that one thread does in less time is
therefore done by one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import wraps
from math import prod
from typing import Any, ParamSpec, TypeVar

import torch

from cacheinf_ros.graph.ir import Global, Operator, TensorSpec

_FEW = 1 << 22  # values read and written, for which one thread takes some milliseconds
_WORDS = ("mm", "matmul", "linear", "conv", "attention", "einsum", "lstm", "gru", "rnn", "fft")
"""Parts of the names of ATen operators that multiply matrices, and so do far more than read and write."""
Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


@contextmanager
def torch_threads(number: int) -> Iterator[None]:
    """Have torch compute in so many threads what this thread asks of it within the context."""
    before = torch.get_num_threads()
    if before == number:
        yield
        return
    torch.set_num_threads(number)  # for this thread; new threads start with the number that was set last
    try:
        yield
    finally:
        torch.set_num_threads(before)


def in_torch_threads(run: Callable[Arguments, Result], number: int) -> Callable[Arguments, Result]:
    """Return the function such that torch computes in so many threads for it."""

    @wraps(run)
    def run_so(*arguments: Arguments.args, **keywords: Arguments.kwargs) -> Result:
        with torch_threads(number):
            return run(*arguments, **keywords)

    return run_so


def threads_for(operator: Operator, specs: Mapping[str, TensorSpec], threads: int) -> int:
    """Return the number of torch threads for an operator: one where it is light, ``threads`` otherwise."""
    return 1 if is_light(operator, specs) else threads


def is_light(operator: Operator, specs: Mapping[str, TensorSpec]) -> bool:
    """Tell whether an operator reads and writes few values, and multiplies no matrices."""
    numbers = sum(prod(specs[name].shape) for name in (*operator.inputs, operator.output) if name in specs)
    return numbers <= _FEW and not any(word in name for name in _calls(operator) for word in _WORDS)


def _calls(operator: Operator) -> Iterator[str]:
    """Yield the names of the functions that an operator calls, or that the operators fused in it call."""
    call: Any = getattr(operator, "call", None)
    for each in getattr(call, "operators", ()):
        yield from _calls(each)
    yield operator.target if isinstance(operator, Global) else str(call)
