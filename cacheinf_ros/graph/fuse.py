# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Rewrite graphs without changing their outputs, so that fewer operators run and fewer tensors are cached."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from cacheinf_ros.graph.fusing import (
    channel_rewrites,
    convolution_rewrites,
    elementwise_rewrites,
    global_rewrites,
    pixel_rewrites,
    written_out,
)
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

# In the order in which they are tried; the operators that a rule returns are fused again.
_RULES: dict[type[Operator], tuple[Callable[..., Rewrite | None], ...]] = {
    Conv: (
        convolution_rewrites.take_padding,
        convolution_rewrites.take_order,
        convolution_rewrites.take_affine,
        convolution_rewrites.take_grey,
        convolution_rewrites.take_focus,
    ),
    Pool: (pixel_rewrites.take_padding,),
    Resample: (pixel_rewrites.nothing_moved, pixel_rewrites.two_moves),
    Select: (
        channel_rewrites.all_channels,
        channel_rewrites.two_selections,
        channel_rewrites.of_one_part,
        convolution_rewrites.choose_outputs,
    ),
    Concat: (channel_rewrites.one_part, channel_rewrites.longer_than),
    Elementwise: (
        elementwise_rewrites.nothing_done,
        written_out.gate,
        written_out.hard_sigmoid,
        convolution_rewrites.take_elementwise,
        convolution_rewrites.take_residual,
        elementwise_rewrites.two_in_one,
        elementwise_rewrites.into_norm,
        elementwise_rewrites.before_moves,
    ),
    Global: (global_rewrites.take_producers,),
}


def fuse(graph: Graph) -> Graph:
    """Build the graph that computes the same with fewer operators.

    Batch norms, activations, residuals and padding move into convolutions; operators that do nothing, and those whose
    result nobody reads, are removed.
    """
    return _Fusion(graph).graph()


class _Fusion:
    """Goes through the operators once, in order; each is fused with what was done before."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._done = Done(graph)
        self._same: dict[str, str] = {}  # tensors that were removed, and those that replace them

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
    """Return the operator with its inputs renamed: ``names`` maps old names to new ones."""
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
