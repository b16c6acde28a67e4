"""The graph the engine compiles: operators between named tensors, each local or global.

A *local* operator computes an output pixel from a bounded neighbourhood of its inputs, so it can be computed
for some pixels only. Everything else is *global* and computes from completed tensors.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch

from cacheinf_ros.graph.window import Window

UNBOUNDED = (float("-inf"), float("inf"))


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorSpec:
    """A tensor between operators.

    Attributes:
        name: unique in the graph.
        shape: static; feature maps are (1, channels, height, width).
    """

    name: str
    shape: tuple[int, ...]

    @property
    def is_map(self) -> bool:
        """Whether it is a feature map with pixels: batch 1, four dimensions, more than one pixel."""
        return len(self.shape) == 4 and self.shape[0] == 1 and self.pixels > 1

    @property
    def channels(self) -> int:
        """Of a feature map."""
        return self.shape[1]

    @property
    def size(self) -> tuple[int, int]:
        """(height, width) of a feature map."""
        return self.shape[2], self.shape[3]

    @property
    def pixels(self) -> int:
        """Of a feature map."""
        return self.shape[2] * self.shape[3]


@dataclass(frozen=True, slots=True)
class TensorRef:
    """Stands for an input tensor in the arguments of an ATen call."""

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Operator:
    """One step of the graph.

    Attributes:
        name: as in the exported graph, for messages.
        inputs: names of the tensors it reads.
        output: name of the tensor it writes.
    """

    name: str
    inputs: tuple[str, ...]
    output: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Conv(Operator):
    """Convolution, then the residual (second input, if any) is added, then values are clamped.

    Attributes:
        weight: float32 [out_channels, in_channels / groups, kernel_y, kernel_x].
        bias: float32 [out_channels].
        clamp: (low, high) of the activation; infinite where there is none.
    """

    weight: torch.Tensor
    bias: torch.Tensor
    window: Window
    groups: int
    clamp: tuple[float, float] = UNBOUNDED

    @property
    def flops_per_pixel(self) -> int:
        """Multiplications and additions of one output pixel."""
        return 2 * self.weight.numel()


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool(Operator):
    """Maximum or average over a window.

    Attributes:
        average: whether the average is taken, otherwise the maximum.
        count_padding: of an average, whether the padding counts as pixels.
    """

    window: Window
    average: bool = False
    count_padding: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Pointwise(Operator):
    """A call that treats every pixel alike and on its own: activation, arithmetic, normalisation over channels.

    Attributes:
        call: ``call(*arguments)`` on tensors [1, channels, pixels, 1] gives the output of just these pixels.
        arguments: as for ``call``; :class:`TensorRef` stands for an input.
    """

    call: Callable[..., torch.Tensor]
    arguments: tuple[Any, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Concat(Operator):
    """Concatenation of feature maps along their channels."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Global(Operator):
    """Any ATen call, computed from completed tensors.

    Attributes:
        known: False where nobody has said that this operator is really global: the user is told.
    """

    call: Callable[..., Any]
    arguments: tuple[Any, ...]
    keywords: dict[str, Any] = field(default_factory=dict)
    target: str
    known: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Graph:
    """Operators in the order of execution, and the tensors between them.

    Attributes:
        input: name of the input, a feature map.
        outputs: (name for the user, name of the tensor), in the model's order.
    """

    input: str
    outputs: tuple[tuple[str, str], ...]
    operators: tuple[Operator, ...]
    tensors: dict[str, TensorSpec]

    @property
    def unknown(self) -> tuple[str, ...]:
        """ATen names of the operators that run densely because nobody taught us what they are."""
        return tuple(sorted({o.target for o in self.operators if isinstance(o, Global) and not o.known}))


def references(arguments: Any) -> tuple[str, ...]:
    """Names of the tensors that the arguments of a call refer to, each once, in order."""
    if isinstance(arguments, TensorRef):
        return (arguments.name,)
    if isinstance(arguments, dict):
        arguments = tuple(arguments.values())
    if not isinstance(arguments, (tuple, list)):
        return ()
    return tuple(dict.fromkeys(name for item in arguments for name in references(item)))


def resolve(arguments: Any, tensors: Callable[[str], Any]) -> Any:
    """The arguments of a call with every reference replaced by ``tensors(name)``."""
    if isinstance(arguments, TensorRef):
        return tensors(arguments.name)
    if isinstance(arguments, dict):
        return {key: resolve(value, tensors) for key, value in arguments.items()}
    if isinstance(arguments, (tuple, list)):
        return type(arguments)(resolve(item, tensors) for item in arguments)
    return arguments
