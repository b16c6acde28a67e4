# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Finds which channels of a network's layers belong together, that is, can only be removed at once.

The network is traced (torch.fx), and every tensor's channels are followed from the layer that makes them to those that
read them. Tensors that are added have their channels in common. A layer that is not understood keeps all of its
channels.
"""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.fx.passes.shape_prop import ShapeProp

from cacheinf_ros.catalog.build.techniques.change import Inapplicable

_SAME_MODULES = (
    nn.ReLU, nn.ReLU6, nn.LeakyReLU, nn.SiLU, nn.GELU, nn.Hardswish, nn.Hardsigmoid, nn.Sigmoid, nn.Tanh, nn.Identity,
    nn.Dropout, nn.Dropout2d, nn.MaxPool2d, nn.AvgPool2d, nn.AdaptiveAvgPool2d, nn.AdaptiveMaxPool2d, nn.Upsample,
)  # fmt: skip
_functional = nn.functional
_SAME_CALLS = {
    torch.relu, torch.sigmoid, torch.tanh, _functional.relu, _functional.relu6, _functional.silu,
    _functional.hardswish, _functional.hardsigmoid, _functional.max_pool2d, _functional.avg_pool2d,
    _functional.adaptive_avg_pool2d, _functional.interpolate, _functional.dropout,
    "relu", "relu_", "sigmoid", "tanh", "contiguous",
}  # fmt: skip
_JOINING = {
    operator.add,
    operator.iadd,
    operator.sub,
    operator.mul,
    operator.imul,
    torch.add,
    torch.sub,
    torch.mul,
    "add",
    "mul",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """A run of a tensor's channels.

    Attributes:
        group: number of the group of channels that belong together.
        size: number of channels in the group.
        repeat: consecutive values that come from each channel: more than one behind a flattened map.
    """

    group: int
    size: int
    repeat: int = 1


Channels = tuple[Segment, ...]


@dataclass(slots=True)
class Coupling:
    """The channels that :func:`couple` finds to belong together; layers are named by their modules.

    Attributes:
        made: for each layer, the group of its output channels.
        read: for each layer or normalisation, the channels of its input.
        fixed: groups that must stay whole.
    """

    made: dict[str, int] = field(default_factory=dict)
    read: dict[str, Channels] = field(default_factory=dict)
    fixed: set[int] = field(default_factory=set)
    _parents: list[int] = field(default_factory=list)

    def root(self, group: int) -> int:
        """Return the group that stands for all that were joined with this one."""
        while self._parents[group] != group:
            group = self._parents[group]
        return group

    def fresh(self) -> int:
        """Add a group, and return its number."""
        self._parents.append(len(self._parents))
        return self._parents[-1]

    def join(self, first: int, second: int) -> None:
        """Make two groups one: their channels are the same from now on."""
        self._parents[self.root(second)] = self.root(first)

    def fix(self, channels: Iterable[Segment]) -> None:
        """Forbid that any of these channels is removed."""
        self.fixed |= {segment.group for segment in channels}

    def is_fixed(self, group: int) -> bool:
        """Tell whether the group, or one that it was joined with, must stay whole."""
        return self.root(group) in {self.root(other) for other in self.fixed}


def couple(module: nn.Module, size: tuple[int, int]) -> Coupling:
    """Find which channels of a network belong together.

    Args:
        size: (height, width) of the input.

    Raises:
        Inapplicable: the network's code cannot be traced.
    """
    try:
        traced = fx.symbolic_trace(module)
        with torch.no_grad():
            ShapeProp(traced).propagate(torch.zeros(1, 3, *size))
    except Exception as error:  # tracing runs the network's code, which may raise anything
        raise Inapplicable(f"its code cannot be traced: {type(error).__name__}: {str(error).splitlines()[0]}") from None
    return _Follower(module, traced.graph).follow()


class _Follower:
    def __init__(self, module: nn.Module, graph: fx.Graph) -> None:
        self._module = module
        self._nodes = graph.nodes
        self._calls = Counter(node.target for node in graph.nodes if node.op == "call_module")
        self._channels: dict[fx.Node, Channels] = {}
        self._found = Coupling()

    def follow(self) -> Coupling:
        for node in self._nodes:
            if node.op == "output":
                for source in node.all_input_nodes:
                    self._found.fix(self._channels.get(source, ()))
            else:
                self._channels[node] = self._of(node)
        return self._found

    def _of(self, node: fx.Node) -> Channels:
        if node.op == "call_module":
            part = self._module.get_submodule(str(node.target))
            if self._calls[node.target] == 1 or isinstance(part, _SAME_MODULES):
                return self._of_module(node, part)
        if node.op in ("call_function", "call_method"):
            return self._of_call(node)
        return self._unknown(node)

    def _of_module(self, node: fx.Node, part: nn.Module) -> Channels:
        (source, *others) = node.all_input_nodes
        channels = self._channels[source]
        name = str(node.target)
        if others:
            return self._unknown(node)
        if isinstance(part, nn.Conv2d):
            if part.groups == 1:
                return self._layer(name, channels, part.out_channels)
            if part.groups == part.in_channels == part.out_channels:
                self._found.read[name] = channels
                return channels
        if isinstance(part, nn.Linear) and len(_shape(source)) == 2:
            return self._layer(name, channels, part.out_features)
        if isinstance(part, (nn.BatchNorm2d, nn.BatchNorm1d)):
            self._found.read[name] = channels
            return channels
        if isinstance(part, nn.Flatten) and (part.start_dim, part.end_dim) == (1, -1):
            return _flattened(channels, source)
        return channels if isinstance(part, _SAME_MODULES) else self._unknown(node)

    def _of_call(self, node: fx.Node) -> Channels:
        sources = node.all_input_nodes
        if node.target in _JOINING and node.kwargs == {}:
            return self._joined(node)
        if node.target is torch.cat and (node.args[1:] == (1,) or node.kwargs == {"dim": 1}):
            return tuple(segment for source in sources for segment in self._channels[source])
        if len(sources) != 1:
            return self._unknown(node)
        channels = self._channels[sources[0]]
        if node.target in (torch.flatten, "flatten") and node.args[1:] == (1,) and not node.kwargs:
            return _flattened(channels, sources[0])
        if node.target in (torch.mean, "mean") and _keeps_channels(node):
            return channels
        return channels if node.target in _SAME_CALLS else self._unknown(node)

    def _layer(self, name: str, channels: Channels, outputs: int) -> Channels:
        self._found.read[name] = channels
        self._found.made[name] = self._found.fresh()
        return (Segment(group=self._found.made[name], size=outputs),)

    def _joined(self, node: fx.Node) -> Channels:
        sources = node.all_input_nodes
        if len(sources) == 1:  # the other operand is a number
            return self._channels[sources[0]]
        first, second = (self._channels[source] for source in sources)
        if [(s.size, s.repeat) for s in first] != [(s.size, s.repeat) for s in second] or len(sources) != 2:
            return self._unknown(node)
        for a, b in zip(first, second, strict=True):
            self._found.join(a.group, b.group)
        return first

    def _unknown(self, node: fx.Node) -> Channels:
        """Fix the channels of all inputs and of the output, as the operation is unknown."""
        for source in node.all_input_nodes:
            self._found.fix(self._channels[source])
        shape = _shape(node)
        result = (Segment(group=self._found.fresh(), size=shape[1]),) if len(shape) > 1 else ()
        self._found.fix(result)
        return result


def _shape(node: fx.Node) -> tuple[int, ...]:
    found: Any = node.meta.get("tensor_meta")
    return tuple(found.shape) if hasattr(found, "shape") else ()


def _flattened(channels: Channels, source: fx.Node) -> Channels:
    pixels = int(torch.tensor(_shape(source)[2:]).prod())
    return tuple(Segment(group=s.group, size=s.size, repeat=s.repeat * pixels) for s in channels)


def _keeps_channels(node: fx.Node) -> bool:
    """Tell whether a mean is taken over pixels only."""
    over: Any = node.args[1] if len(node.args) > 1 else node.kwargs.get("dim")
    return isinstance(over, (tuple, list)) and sorted(over) in ([2, 3], [-2, -1])


def kept_inputs(channels: Channels, coupling: Coupling, kept: dict[int, Tensor]) -> Tensor:
    """Return the positions in a layer's input that are left, int64.

    Args:
        channels: the layer's input.
        kept: for each group, the channels that are left, int64; groups that are not listed stay whole.
    """
    parts, start = [], 0
    for segment in channels:
        left = kept.get(coupling.root(segment.group), torch.arange(segment.size))
        parts.append(start + (left[:, None] * segment.repeat + torch.arange(segment.repeat)).flatten())
        start += segment.size * segment.repeat
    return torch.cat(parts)
