# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Rewrites that leave the outputs as they are, so that fewer operators run and fewer tensors are cached."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from cacheinf_ros.graph.fusing import channels, convolutions, elementwise, globals, pixels
from cacheinf_ros.graph.fusing.rewriting import Done, Rewrite
from cacheinf_ros.graph.ir import (
    Concat,
    Conv,
    Elementwise,
    Global,
    Graph,
    Operator,
    Pointwise,
    Pool,
    Resample,
    Select,
    TensorRef,
    resolve,
)

# In the order in which they are tried; what a rule answers is fused again.
_RULES: dict[type[Operator], tuple[Callable[..., Rewrite | None], ...]] = {
    Conv: (convolutions.take_padding, convolutions.take_order, convolutions.take_affine),
    Pool: (pixels.take_padding,),
    Resample: (pixels.nothing_moved, pixels.two_moves),
    Select: (channels.all_channels, channels.two_selections, channels.of_one_part, convolutions.choose_outputs),
    Concat: (channels.one_part, channels.longer_than),
    Elementwise: (
        elementwise.nothing_done,
        elementwise.gate,
        convolutions.take_elementwise,
        convolutions.take_residual,
        elementwise.two_in_one,
        elementwise.into_norm,
        elementwise.before_moves,
    ),
    Global: (globals.take_producers,),
}


def fuse(graph: Graph) -> Graph:
    """The same function with fewer operators.

    Batch norms, activations, residuals and padding move into convolutions; operators that do nothing and those that
    nobody reads end.
    """
    return _Fusion(graph).graph()


class _Fusion:
    """Goes through the operators once, in order; each is fused with what was done before."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._done = Done(graph)
        self._same: dict[str, str] = {}  # tensors that ended, and those that stand for them

    def graph(self) -> Graph:
        for operator in self._graph.operators:
            self._place(renamed(operator, self._same))
        operators = tuple(self._done.operators.values())
        names = {self._graph.input, *(operator.output for operator in operators)}
        return replace(
            self._graph,
            outputs=tuple((name, self._same.get(tensor, tensor)) for name, tensor in self._graph.outputs),
            operators=operators,
            tensors={name: spec for name, spec in self._done.tensors.items() if name in names},
        )

    def _place(self, operator: Operator) -> None:
        if not self._done.is_read(operator.output):
            self._done.unread(operator.inputs)
            return
        for rule in _RULES.get(type(operator), ()):
            rewrite = rule(self._done, operator)
            if rewrite is not None:
                self._apply(operator, rewrite)
                return
        self._done.add(operator)

    def _apply(self, operator: Operator, rewrite: Rewrite) -> None:
        self._done.declare(rewrite.tensors)
        for new in rewrite.operators:
            self._done.read(new.inputs)
        if rewrite.same_as:
            self._same[operator.output] = rewrite.same_as
            self._done.same(operator.output, rewrite.same_as)
        for old in rewrite.absorbed:
            self._done.remove(old)
        for old in (operator, *rewrite.absorbed):
            self._done.unread(old.inputs)
        for new in rewrite.operators:
            self._place(new)


def renamed(operator: Operator, names: Mapping[str, str]) -> Operator:
    """The operator, reading other tensors."""
    if not any(name in names for name in operator.inputs):
        return operator

    def name(old: str) -> str:
        return names.get(old, old)

    inputs = tuple(name(old) for old in operator.inputs)
    if isinstance(operator, (Global, Pointwise)):
        operator = replace(operator, arguments=resolve(operator.arguments, lambda old: TensorRef(name(old))))
    if isinstance(operator, Global):
        operator = replace(operator, keywords=resolve(operator.keywords, lambda old: TensorRef(name(old))))
    return replace(operator, inputs=tuple(dict.fromkeys(inputs)) if isinstance(operator, Global) else inputs)
