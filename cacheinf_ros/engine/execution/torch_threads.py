# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Runs light steps by a single torch thread, as the compiled program's own threads stay awake between its steps.

Where both have as many threads as there are cores, the operating system may let a thread that torch wakes wait for a
time slice, 4 ms, behind a thread of the compiled program that only waits. Work that one thread does in less time is
therefore done by one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from math import prod
from typing import Any, ParamSpec

import torch

from cacheinf_ros.graph.ir import Global, Operator, TensorSpec

_FEW = 1 << 22  # values read and written, for which one thread takes some milliseconds
_WORDS = ("mm", "matmul", "linear", "conv", "attention", "einsum", "lstm", "gru", "rnn", "fft")
"""Parts of the names of ATen operators that multiply matrices, and so do far more than read and write."""
Arguments = ParamSpec("Arguments")


def by_few_threads(
    run: Callable[Arguments, None], operator: Operator, specs: Mapping[str, TensorSpec]
) -> Callable[Arguments, None]:
    """Return a step that runs in one torch thread where the operator is light, and the step itself otherwise."""
    if not is_light(operator, specs):
        return run

    def run_alone(*arguments: Arguments.args, **keywords: Arguments.kwargs) -> None:
        threads = torch.get_num_threads()
        torch.set_num_threads(1)  # for this thread; new threads start with the number that was set last
        try:
            run(*arguments, **keywords)
        finally:
            torch.set_num_threads(threads)

    return run_alone


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
