# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Translate an exported ATen graph to ours: every call becomes local operators, a view, or a global operator."""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import OutputKind
from torch.fx import Node

from cacheinf_ros.errors import ModelError
from cacheinf_ros.graph.aten_operators import CHECKS, CONVERSIONS, GLOBALS, IDENTITIES, MOVES, SHAPES
from cacheinf_ros.graph.ir import COLOURS, Graph
from cacheinf_ros.graph.lowering.builder import Builder, NotLocal
from cacheinf_ros.graph.lowering.planar import PLANAR, Planar
from cacheinf_ros.graph.lowering.rules import OF_SEVERAL, RULES
from cacheinf_ros.graph.lowering.view import View


def lower(program: ExportedProgram) -> Graph:
    """Translate an exported program with one image input [1, 3, height, width].

    Raises:
        ModelError: the program has no such input.
    """
    return _Lowering(program).graph()


@dataclass(frozen=True, slots=True)
class _First:
    """A call that returns the first of several results."""

    target: Callable[..., Any]

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        return self.target(*arguments, **keywords)[0]


class _Lowering:
    """Walks the nodes of a program once, in order, and translates each."""

    def __init__(self, program: ExportedProgram) -> None:
        self._program = program
        self._values: dict[str, Any] = {}  # by node name: a view, a tuple of views, or a constant
        self._builder = Builder()

    def graph(self) -> Graph:
        inputs = self._bind_placeholders()
        if len(inputs) != 1 or len(inputs[0].shape) != 4 or inputs[0].shape[:2] != (1, COLOURS):
            shapes = [view.shape for view in inputs]
            raise ModelError(
                f"the model must take one image [1, {COLOURS}, height, width], not inputs of shapes {shapes}: export "
                "it with a first layer that makes of a coloured image what the others take"
            )
        outputs: list[tuple[str, str]] = []
        for node in self._program.graph.nodes:
            self._builder.node = node.name
            if node.op == "call_function":
                self._lower_call(node)
            elif node.op == "output":
                outputs = self._outputs(node)
        return Graph(
            input=inputs[0].source.name,
            outputs=tuple(outputs),
            operators=tuple(self._builder.operators),
            tensors=self._builder.tensors,
        )

    def _bind_placeholders(self) -> list[View]:
        signature = self._program.graph_signature
        constants = {
            **signature.inputs_to_parameters,
            **signature.inputs_to_buffers,
            **signature.inputs_to_lifted_tensor_constants,
        }
        state = {**self._program.state_dict, **self._program.constants}
        inputs = []
        for node in self._program.graph.nodes:
            if node.op != "placeholder":
                continue
            if node.name in constants:
                self._values[node.name] = state[constants[node.name]].detach()
            else:
                inputs.append(self._builder.declare(node.name, _shape(node)))
                self._values[node.name] = inputs[-1]
        return inputs

    def _outputs(self, node: Node) -> list[tuple[str, str]]:
        names = _output_names(self._program)
        specs = self._program.graph_signature.output_specs  # an input that the model overwrites is among them too
        results = zip(specs, cast(Sequence[object], node.args[0]), strict=True)
        items = [item for spec, item in results if spec.kind is OutputKind.USER_OUTPUT]
        pairs = []
        for name, item in zip(names, items, strict=True):
            view = self._values[item.name] if isinstance(item, Node) else None
            if isinstance(view, View):
                self._builder.node = name
                pairs.append((name, self._builder.result(view).source.name))
        if not pairs:
            raise ModelError("the model returns no tensor that depends on its input")
        return pairs

    def _lower_call(self, node: Node) -> None:
        if node.target in CHECKS:
            return
        arguments, keywords = self._bound(node.args), self._bound(dict(node.kwargs))
        if not any(_views((arguments, keywords))):
            self._values[node.name] = _target(node)(*arguments, **keywords)
        else:
            self._values[node.name] = self._value(node, arguments, keywords)

    def _bound(self, arguments: Any) -> Any:
        if isinstance(arguments, Node):
            return self._values[arguments.name]
        if isinstance(arguments, dict):
            return {key: self._bound(value) for key, value in arguments.items()}
        if isinstance(arguments, (tuple, list)):
            return type(arguments)(self._bound(item) for item in arguments)
        return arguments

    def _value(self, node: Node, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        """Return the value of a call that depends on the input."""
        if node.target is operator.getitem and isinstance(arguments[0], tuple):
            return arguments[0][arguments[1]]
        if node.target in SHAPES:
            blank = torch.zeros(arguments[0].shape, dtype=cast(Node, node.args[0]).meta["val"].dtype)
            return _target(node)(blank, *arguments[1:], **keywords)
        if node.target in IDENTITIES or _keeps_type(node):
            return arguments[0]
        if node.target in MOVES and not any(_views((arguments[1:], keywords))):
            return _moved(node, arguments, keywords)
        return self._local(node, arguments, keywords) or self._global(node, arguments, keywords)

    def _local(self, node: Node, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> View | tuple[View] | None:
        """Translate a call by its operator's rule; None where it has none or the rule does not apply."""
        rule = RULES.get(node.target)
        expected = _first_result(node)
        if rule is None or expected is None or expected.dtype != torch.float32 or not expected.numel():
            return None
        if node.target not in OF_SEVERAL and any(_views((arguments[1:], keywords))):  # such as computed weights
            return None
        self._builder.shape = tuple(expected.shape)
        positional = _with_defaults(node.target, arguments)
        try:
            inspect.signature(rule).bind(self._builder, *positional, **keywords)
        except TypeError:  # an option that the rule does not know
            return None
        try:
            view = rule(self._builder, *positional, **keywords)
        except NotLocal:
            return None
        if view.shape != self._builder.shape:  # a constant larger than the map
            return None
        return view if isinstance(node.meta["val"], torch.Tensor) else (view,)

    def _global(self, node: Node, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> View | tuple[View]:
        classified = node.target in GLOBALS or node.target in MOVES or node.target in RULES
        known = classified or not isinstance(node.target, torch._ops.OpOverload)
        on_maps = any(view.source.is_map for view in _views((arguments, keywords)))
        call, result = _target(node), node.meta["val"]
        call = Planar(call) if node.target in PLANAR else call
        several = not isinstance(result, torch.Tensor)
        first = _first_result(node)
        if several and first is not None:
            call, result = _First(call), first
        is_tensor = isinstance(result, torch.Tensor)
        view = self._builder.call(
            call,
            arguments,
            keywords,
            label=str(node.target),
            known=known or not on_maps,
            shape=tuple(result.shape) if is_tensor else (),
            dtype=result.dtype if is_tensor else torch.float32,
        )
        return (view,) if several and first is not None else view


def _moved(node: Node, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> View | tuple[View, ...]:
    source: View = arguments[0]
    target = _target(node)
    result = node.meta["val"]
    if isinstance(result, torch.Tensor):
        return source.then(target, *arguments[1:], **keywords)
    return tuple(source.then(target, *arguments[1:], item=i, **keywords) for i in range(len(result)))


def _keeps_type(node: Node) -> bool:
    """Tell whether the call only converts a tensor to the type that it already has."""
    source = node.args[0] if node.args else None
    if not isinstance(source, Node) or node.target not in CONVERSIONS:
        return False
    return bool(node.meta["val"].dtype == source.meta["val"].dtype)


def _views(arguments: Any) -> Iterator[View]:
    if isinstance(arguments, View):
        yield arguments
    elif isinstance(arguments, dict):
        yield from _views(tuple(arguments.values()))
    elif isinstance(arguments, (tuple, list)):
        for item in arguments:
            yield from _views(item)


def _first_result(node: Node) -> torch.Tensor | None:
    """Return the result in the exported program, or the first of several where no other is used."""
    value = node.meta["val"]
    if isinstance(value, torch.Tensor):
        return value
    if all(user.target is operator.getitem and user.args[1] == 0 for user in node.users):
        first = value[0]
        return first if isinstance(first, torch.Tensor) else None
    return None


def _with_defaults(target: Any, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the positional arguments of an operator, with the defaults of those that were left out."""
    schema = [argument for argument in target._schema.arguments if not argument.kwarg_only]
    return arguments + tuple(argument.default_value for argument in schema[len(arguments) :])


def _target(node: Node) -> Callable[..., Any]:
    assert callable(node.target)
    return node.target


def _shape(node: Node) -> tuple[int, ...]:
    value = node.meta["val"]
    return tuple(int(n) for n in value.shape) if isinstance(value, torch.Tensor) else ()


def _output_names(program: ExportedProgram) -> list[str]:
    """Return names for the user: the keys where the model returns a dictionary, otherwise output0, output1, ..."""
    spec = program.call_spec.out_spec
    count = len(program.graph_signature.user_outputs)
    if spec is not None and spec.type is not None and issubclass(spec.type, dict) and len(spec.context) == count:
        return [str(key) for key in spec.context]
    return ["output"] if count == 1 else [f"output{i}" for i in range(count)]
