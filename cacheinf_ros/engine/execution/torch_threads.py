# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Threads of torch for a step between two of the compiled program, whose own threads are awake meanwhile.

Where both have as many threads as there are processors, the system lets one that torch wakes wait for a time slice,
4 ms, behind a thread that waits for it. What one thread does in less is done by one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from math import prod
from typing import Any, ParamSpec

import torch

from cacheinf_ros.graph.ir import Global, Operator, TensorSpec

_FEW = 1 << 22  # numbers that are read and written: one thread takes some milliseconds
_WORDS = ("mm", "matmul", "linear", "conv", "attention", "einsum", "lstm", "gru", "rnn", "fft")
"""In the names of ATen operators that multiply matrices, and so do far more than to read and write."""
Arguments = ParamSpec("Arguments")


def by_few_threads(
    run: Callable[Arguments, None], operator: Operator, specs: Mapping[str, TensorSpec]
) -> Callable[Arguments, None]:
    """The step, by one thread of torch where the operator does little; as it is where it does much."""
    if not is_light(operator, specs):
        return run

    def run_alone(*arguments: Arguments.args, **keywords: Arguments.kwargs) -> None:
        threads = torch.get_num_threads()
        torch.set_num_threads(1)  # of this thread; others take the last number that was set when they begin
        try:
            run(*arguments, **keywords)
        finally:
            torch.set_num_threads(threads)

    return run_alone


def is_light(operator: Operator, specs: Mapping[str, TensorSpec]) -> bool:
    """Whether an operator reads and writes few numbers, and multiplies no matrices."""
    numbers = sum(prod(specs[name].shape) for name in (*operator.inputs, operator.output) if name in specs)
    return numbers <= _FEW and not any(word in name for name in _calls(operator) for word in _WORDS)


def _calls(operator: Operator) -> Iterator[str]:
    """Names of what an operator calls, or of what the operators call that it stands for."""
    call: Any = getattr(operator, "call", None)
    for each in getattr(call, "operators", ()):
        yield from _calls(each)
    yield operator.target if isinstance(operator, Global) else str(call)
