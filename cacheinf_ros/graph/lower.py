"""From an exported ATen graph to ours: every call becomes a local or a global operator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import torch
from torch.export import ExportedProgram
from torch.fx import Node

from cacheinf_ros.errors import ModelError
from cacheinf_ros.graph.aten_operators import ACTIVATIONS, ANY_LAYOUT, ARITHMETIC, GLOBALS, IDENTITIES
from cacheinf_ros.graph.ir import (
    Concat,
    Conv,
    Global,
    Graph,
    Operator,
    Pointwise,
    Pool,
    TensorRef,
    TensorSpec,
    references,
)
from cacheinf_ros.graph.window import Window

aten = torch.ops.aten


def lower(program: ExportedProgram) -> Graph:
    """Translate an exported program with one image input [1, channels, height, width].

    Raises:
        ModelError: the program has no such input.
    """
    return _Lowering(program).graph()


class _Lowering:
    """Walks the nodes once, in order."""

    def __init__(self, program: ExportedProgram) -> None:
        self._program = program
        self._values: dict[str, Any] = {}  # of node names: a TensorRef or a constant
        self._specs: dict[str, TensorSpec] = {}
        self._operators: list[Operator] = []
        self._rules: dict[Any, Callable[[Node, tuple[Any, ...]], Operator | None]] = {
            aten.conv2d.default: self._conv,
            aten._native_batch_norm_legit_no_training.default: self._batch_norm,
            aten.batch_norm.default: self._batch_norm,
            aten.max_pool2d.default: self._max_pool,
            aten.avg_pool2d.default: self._avg_pool,
            aten.cat.default: self._concat,
            **dict.fromkeys(ACTIVATIONS, self._pointwise),
            **dict.fromkeys(ARITHMETIC, self._pointwise),
        }

    def graph(self) -> Graph:
        inputs = self._bind_placeholders()
        if len(inputs) != 1 or not inputs[0].is_map:
            shapes = [spec.shape for spec in inputs]
            raise ModelError(
                f"the model must take one image [1, channels, height, width], not inputs of shapes {shapes}"
            )
        outputs: list[tuple[str, str]] = []
        for node in self._program.graph.nodes:
            if node.op == "call_function":
                self._lower_call(node)
            elif node.op == "output":
                outputs = self._outputs(node)
        return Graph(
            input=inputs[0].name, outputs=tuple(outputs), operators=tuple(self._operators), tensors=self._specs
        )

    def _bind_placeholders(self) -> list[TensorSpec]:
        signature = self._program.graph_signature
        constants = {**signature.inputs_to_parameters, **signature.inputs_to_buffers}
        state = {**self._program.state_dict, **self._program.constants}
        inputs = []
        for node in self._program.graph.nodes:
            if node.op != "placeholder":
                continue
            if node.name in constants:
                self._values[node.name] = state[constants[node.name]].detach()
            elif node.name in signature.inputs_to_lifted_tensor_constants:
                self._values[node.name] = state[signature.inputs_to_lifted_tensor_constants[node.name]].detach()
            else:
                inputs.append(self._declare(node))
        return inputs

    def _declare(self, node: Node) -> TensorSpec:
        value = node.meta["val"]
        shape = tuple(int(n) for n in value.shape) if isinstance(value, torch.Tensor) else ()
        spec = TensorSpec(name=node.name, shape=shape)
        self._specs[node.name] = spec
        self._values[node.name] = TensorRef(node.name)
        return spec

    def _outputs(self, node: Node) -> list[tuple[str, str]]:
        names = _output_names(self._program)
        values = [self._values[item.name] for item in cast(Sequence[object], node.args[0]) if isinstance(item, Node)]
        pairs = [(name, value.name) for name, value in zip(names, values, strict=True) if isinstance(value, TensorRef)]
        if not pairs:
            raise ModelError("the model returns no tensor that depends on its input")
        return pairs

    def _lower_call(self, node: Node) -> None:
        arguments = self._bound(node.args)
        keywords = self._bound(dict(node.kwargs))
        if not references((arguments, keywords)):
            self._values[node.name] = _callable(node)(*arguments, **keywords)
            return
        if node.target in IDENTITIES or self._is_first_of_batch_norm(node):
            self._values[node.name] = arguments[0]
            return
        rule = None if keywords else self._rules.get(node.target)
        self._declare(node)
        operator = rule(node, arguments) if rule else None
        self._operators.append(operator or self._global(node, arguments, keywords))

    def _bound(self, arguments: Any) -> Any:
        if isinstance(arguments, Node):
            return self._values[arguments.name]
        if isinstance(arguments, dict):
            return {key: self._bound(value) for key, value in arguments.items()}
        if isinstance(arguments, (tuple, list)):
            return type(arguments)(self._bound(item) for item in arguments)
        return arguments

    def _is_first_of_batch_norm(self, node: Node) -> bool:
        """Batch norm returns three tensors; ours returns the first, which is the only one inference uses."""
        source = node.args[0]
        return bool(
            getattr(node.target, "__name__", "") == "getitem"
            and node.args[1] == 0
            and isinstance(source, Node)
            and source.target is aten._native_batch_norm_legit_no_training.default
            and isinstance(self._values[source.name], TensorRef)
        )

    def _global(self, node: Node, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Global:
        known = node.target in GLOBALS or not isinstance(node.target, torch._ops.OpOverload)
        on_maps = any(self._specs[name].is_map for name in references((arguments, keywords)))
        return Global(
            name=node.name,
            inputs=references((arguments, keywords)),
            output=node.name,
            call=ANY_LAYOUT.get(node.target, _callable(node)),
            arguments=arguments,
            keywords=keywords,
            target=str(node.target),
            known=known or not on_maps,
        )

    def _map_shape(self, value: Any) -> tuple[int, ...] | None:
        if not isinstance(value, TensorRef) or not self._specs[value.name].is_map:
            return None
        return self._specs[value.name].shape

    def _window(self, node: Node, source: TensorRef, **pairs: Any) -> Window:
        return Window(
            in_size=self._specs[source.name].size,
            out_size=self._specs[node.name].size,
            **{name: _pair(value) for name, value in pairs.items()},
        )

    def _conv(self, node: Node, arguments: tuple[Any, ...]) -> Operator | None:
        source, weight, bias, stride, padding, dilation, groups = _with_defaults(
            arguments, (None, None, None, (1, 1), (0, 0), (1, 1), 1)
        )
        if not self._map_shape(source) or not self._specs[node.name].is_map or not isinstance(weight, torch.Tensor):
            return None
        return Conv(
            name=node.name,
            inputs=(source.name,),
            output=node.name,
            weight=weight.float(),
            bias=torch.zeros(weight.shape[0]) if bias is None else bias.float(),
            window=self._window(
                node, source, kernel=weight.shape[2:], stride=stride, padding=padding, dilation=dilation
            ),
            groups=groups,
        )

    def _batch_norm(self, node: Node, arguments: tuple[Any, ...]) -> Operator | None:
        source, weight, bias, mean, variance = arguments[:5]
        epsilon = arguments[-1] if node.target is not aten.batch_norm.default else arguments[7]
        shape = self._map_shape(source)
        if not shape:
            return None
        scale = torch.rsqrt(variance.double() + epsilon)
        scale = scale if weight is None else scale * weight.double()
        shift = -mean.double() * scale
        shift = shift if bias is None else shift + bias.double()
        self._specs[node.name] = TensorSpec(name=node.name, shape=shape)
        return affine(node.name, source.name, node.name, scale, shift)

    def _max_pool(self, node: Node, arguments: tuple[Any, ...]) -> Operator | None:
        source, kernel, stride, padding, dilation, _ = _with_defaults(
            arguments, (None, None, [], (0, 0), (1, 1), False)
        )
        if not self._map_shape(source) or not self._specs[node.name].is_map:
            return None
        window = self._window(node, source, kernel=kernel, stride=stride or kernel, padding=padding, dilation=dilation)
        return Pool(name=node.name, inputs=(source.name,), output=node.name, window=window)

    def _avg_pool(self, node: Node, arguments: tuple[Any, ...]) -> Operator | None:
        source, kernel, stride, padding, _, count_padding, divisor = _with_defaults(
            arguments, (None, None, [], (0, 0), False, True, None)
        )
        if not self._map_shape(source) or not self._specs[node.name].is_map or divisor is not None:
            return None
        window = self._window(node, source, kernel=kernel, stride=stride or kernel, padding=padding)
        return Pool(
            name=node.name,
            inputs=(source.name,),
            output=node.name,
            window=window,
            average=True,
            count_padding=count_padding,
        )

    def _concat(self, node: Node, arguments: tuple[Any, ...]) -> Operator | None:
        parts, axis = _with_defaults(arguments, (None, 0))
        if axis not in (1, -3) or not all(self._map_shape(part) for part in parts):
            return None
        return Concat(name=node.name, inputs=tuple(part.name for part in parts), output=node.name)

    def _pointwise(self, node: Node, arguments: tuple[Any, ...]) -> Operator | None:
        spec = self._specs[node.name]
        names = references(arguments)
        if not spec.is_map or any(self._specs[name].size != spec.size for name in names if self._specs[name].is_map):
            return None
        per_channel = node.target is aten.prelu.default or _is_same_everywhere(arguments)
        if not all(self._specs[name].is_map for name in names) or not per_channel:
            return None
        return Pointwise(name=node.name, inputs=names, output=node.name, call=_callable(node), arguments=arguments)


def affine(name: str, source: str, output: str, scale: torch.Tensor, shift: torch.Tensor) -> Pointwise:
    """x * scale + shift per channel; scale and shift: [channels]."""
    return Pointwise(
        name=name,
        inputs=(source,),
        output=output,
        call=scale_and_shift,
        arguments=(TensorRef(source), scale.float().view(1, -1, 1, 1), shift.float().view(1, -1, 1, 1)),
    )


def scale_and_shift(x: torch.Tensor, scale: torch.Tensor, shift: torch.Tensor) -> torch.Tensor:
    """What a batch norm that was not folded computes."""
    return torch.addcmul(shift, x, scale)


def _is_same_everywhere(arguments: Any) -> bool:
    """Whether constant tensors among the arguments have no extent over pixels."""
    tensors: list[torch.Tensor] = []

    def collect(value: Any) -> None:
        if isinstance(value, torch.Tensor):
            tensors.append(value)
        elif isinstance(value, (tuple, list)):
            for item in value:
                collect(item)

    collect(arguments)
    return all(
        bool(t.numel() == 1) or (t.dim() == 4 and t.shape[2:] == (1, 1)) or _is_channel_vector(t) for t in tensors
    )


def _is_channel_vector(tensor: torch.Tensor) -> bool:
    """[channels, 1, 1] broadcasts over channels; a bare [n] would broadcast over columns."""
    return tensor.dim() == 3 and tensor.shape[1:] == (1, 1)


def _callable(node: Node) -> Callable[..., Any]:
    assert callable(node.target)
    return node.target


def _pair(value: Any) -> tuple[int, int]:
    if isinstance(value, int):
        return value, value
    numbers = tuple(int(n) for n in value)
    return (numbers[0], numbers[0]) if len(numbers) == 1 else (numbers[0], numbers[1])


def _with_defaults(arguments: tuple[Any, ...], defaults: tuple[Any, ...]) -> tuple[Any, ...]:
    return arguments + defaults[len(arguments) :]


def _output_names(program: ExportedProgram) -> list[str]:
    """Names for the user: the keys where the model returns a dictionary, otherwise output0, output1, ..."""
    spec = program.call_spec.out_spec
    count = len(program.graph_signature.user_outputs)
    if spec is not None and spec.type is not None and issubclass(spec.type, dict) and len(spec.context) == count:
        return [str(key) for key in spec.context]
    return ["output"] if count == 1 else [f"output{i}" for i in range(count)]
