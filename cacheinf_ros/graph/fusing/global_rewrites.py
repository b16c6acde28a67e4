# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Merge global operators that follow each other into one, which costs the engine one call."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch

from cacheinf_ros.graph.fusing.rewriting import Done, Rewrite
from cacheinf_ros.graph.ir import Global, TensorRef, resolve


@dataclass(frozen=True, slots=True)
class Sequence:
    """The call of several global operators.

    Attributes:
        inputs: names of the tensors that it is called with.
        operators: operators in order of execution.
    """

    inputs: tuple[str, ...]
    operators: tuple[Global, ...]

    def __call__(self, *tensors: Any) -> Any:
        """Run the operators in order, and return what the last one returns."""
        values = dict(zip(self.inputs, tensors, strict=True))
        for operator in self.operators:
            arguments, keywords = (resolve(a, values.__getitem__) for a in (operator.arguments, operator.keywords))
            values[operator.output] = operator.call(*arguments, **keywords)
        return values[self.operators[-1].output]


def take_producers(done: Done, operator: Global) -> Rewrite | None:
    """Merge an operator with the producers of inputs that are made for it alone.

    Operators with constants are left alone: those must stay where an engine finds them.
    """
    if not _is_plain(operator):
        return None
    made = [first for name in operator.inputs if (first := done.sole(name, Global)) and _is_plain(first)]
    if not made:
        return None
    steps = tuple(step for each in (*made, operator) for step in _steps(each))
    own = {step.output for step in steps}
    inputs = tuple(dict.fromkeys(name for step in steps for name in step.inputs if name not in own))
    merged = replace(
        operator,
        inputs=inputs,
        call=Sequence(inputs, steps),
        arguments=tuple(TensorRef(name) for name in inputs),
        keywords={},
    )
    return Rewrite(absorbed=tuple(made), operators=(merged,))


def _steps(operator: Global) -> tuple[Global, ...]:
    return operator.call.operators if isinstance(operator.call, Sequence) else (operator,)


def _is_plain(operator: Global) -> bool:
    return operator.known and not _has_constants((operator.arguments, operator.keywords))


def _has_constants(arguments: Any) -> bool:
    """Tell whether tensors are among the arguments."""
    if isinstance(arguments, dict):
        arguments = tuple(arguments.values())
    if isinstance(arguments, (tuple, list)):
        return any(_has_constants(item) for item in arguments)
    return isinstance(arguments, torch.Tensor)
