# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The graph the engine compiles: operators between named tensors, each local or global.

A *local* operator computes an output pixel from a bounded neighbourhood of its inputs, so it can be computed
for some pixels only. Everything else is *global* and computes from completed tensors.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import torch

from cacheinf_ros.errors import ModelError
from cacheinf_ros.graph.activation import LINEAR, Activation
from cacheinf_ros.graph.taps import AxisTaps
from cacheinf_ros.graph.window import Window

COLOURS = 3
"""The channels of a graph's input: kernels write so many values for each pixel of a frame."""
LARGEST_LEVEL = 255
"""The largest level that fits into a byte."""
_COARSEST_MAP = 64  # pixels of the input for one of the map
_FLOAT32 = torch.finfo(torch.float32)


@dataclass(frozen=True, slots=True, kw_only=True)
class Levels:
    """What levels, uint8, stand for: (level - zero) * scale.

    Attributes:
        scale: positive, and a normal number of float32: to compiled kernels a scale of 0 means "no levels".
        zero: the level of 0, from 0 to 255.
    """

    scale: float
    zero: int

    def __post_init__(self) -> None:
        if not _FLOAT32.tiny <= self.scale <= _FLOAT32.max or not 0 <= self.zero <= LARGEST_LEVEL:
            raise ModelError(
                f"levels of scale {self.scale:g} with 0 at {self.zero} cannot be computed with: quantise the model anew"
            )


def is_map_without_channels(shape: tuple[int, ...], input_size: tuple[int, int]) -> bool:
    """Tell whether an output [1, height, width] is a map, of classes or depths, rather than a list.

    A map is as large as the input, or a whole fraction of it, which lists hardly ever are.
    """
    height, width = input_size
    sizes = ((-(-height // step), -(-width // step)) for step in range(1, _COARSEST_MAP + 1))
    return len(shape) == 3 and shape[0] == 1 and shape[1:] in sizes


def free_name(wanted: str, *taken: Container[str]) -> str:
    """Return a name for a tensor that is made beside a graph's own, whose names may be anything."""
    while any(wanted in names for names in taken):
        wanted += "'"
    return wanted


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorSpec:
    """A tensor between operators.

    Attributes:
        name: unique in the graph.
        shape: static; feature maps are (1, channels, height, width), or (1, channels): one pixel.
        levels: what its values stand for where they are levels, uint8; None: they are floats.
        floats: the type that a feature map of floats is stored in.
    """

    name: str
    shape: tuple[int, ...]
    levels: Levels | None = None
    floats: torch.dtype = torch.float32

    @property
    def value_bytes(self) -> int:
        """The bytes of one value of a feature map."""
        return self.floats.itemsize if self.levels is None else 1

    @property
    def is_map(self) -> bool:
        """Whether the tensor is a feature map: batch 1 and channels, with pixels or as a vector."""
        return len(self.shape) in (2, 4) and self.shape[0] == 1

    @property
    def channels(self) -> int:
        """The number of channels of a feature map."""
        return self.shape[1]

    @property
    def size(self) -> tuple[int, int]:
        """(height, width) of a feature map; a vector is one pixel."""
        return (self.shape[2], self.shape[3]) if len(self.shape) == 4 else (1, 1)

    @property
    def pixels(self) -> int:
        """The number of pixels of a feature map."""
        return self.size[0] * self.size[1]


@dataclass(frozen=True, slots=True)
class TensorRef:
    """Stands for an input tensor in the arguments of an ATen call."""

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Operator:
    """One step of the graph.

    Attributes:
        name: name in the exported graph, for messages.
        inputs: names of the tensors it reads.
        output: name of the tensor it writes.
    """

    name: str
    inputs: tuple[str, ...]
    output: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Conv(Operator):
    """Convolution, plus the residual (second input, if any), then the activation; linear layers have one pixel.

    Attributes:
        weight: float32 [out_channels, in_channels / groups, kernel_y, kernel_x].
        bias: float32 [out_channels].
        residual_last: whether the residual is added after the activation instead.
    """

    weight: torch.Tensor
    bias: torch.Tensor
    window: Window
    groups: int
    activation: Activation = LINEAR
    residual_last: bool = False

    @property
    def flops_per_pixel(self) -> int:
        """The number of multiplications and additions for one output pixel."""
        return 2 * self.weight.numel()

    @property
    def is_depthwise(self) -> bool:
        """Whether every channel has one filter of its own."""
        return self.weight.shape[1] == 1 and self.weight.shape[0] == self.groups


@dataclass(frozen=True, slots=True, kw_only=True)
class Int8Conv(Conv):
    """A convolution of levels. Its weights are rounded to whole numbers, -128 to 127, of a unit per output channel.

    Attributes:
        weight_scale: float32 [out_channels]: the unit of each output channel's weights.
    """

    weight_scale: torch.Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool(Operator):
    """Maximum or average over a window.

    Attributes:
        average: whether the average is taken, otherwise the maximum.
        count_padding: whether the padding counts as pixels of an average.
    """

    window: Window
    average: bool = False
    count_padding: bool = True


class Combine(Enum):
    """How an element-wise operator combines its two inputs."""

    ADD = "add"
    SUB = "sub"
    MUL = "mul"
    DIV = "div"
    MAXIMUM = "maximum"
    MINIMUM = "minimum"


@dataclass(frozen=True, slots=True, kw_only=True)
class Elementwise(Operator):
    """activation((a combined with b) * scale + shift); without a second input: activation(a * scale + shift).

    The second input may have one pixel, which then goes with every pixel of the first (squeeze-and-excite).

    Attributes:
        combine: how the inputs are combined; None with one input.
        scale: float32 [channels], or None: 1.
        shift: float32 [channels], or None: 0.
    """

    combine: Combine | None = None
    scale: torch.Tensor | None = None
    shift: torch.Tensor | None = None
    activation: Activation = LINEAR

    @property
    def is_affine(self) -> bool:
        """Whether values are scaled or shifted."""
        return self.scale is not None or self.shift is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelNorm(Operator):
    """Layer norm over the channels of each pixel: (x - mean) / sqrt(variance + epsilon) * weight + bias.

    Attributes:
        weight: float32 [channels].
        bias: float32 [channels].
    """

    weight: torch.Tensor
    bias: torch.Tensor
    epsilon: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelSoftmax(Operator):
    """Softmax over the channels of each pixel.

    Attributes:
        log: whether the logarithm of the softmax is taken.
    """

    log: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Resample(Operator):
    """out[y, x] = sum over taps of weight_y * weight_x * in[index_y, index_x].

    This covers resizing, padding, cropping and adaptive average pooling.

    Attributes:
        rows: taps along y.
        columns: taps along x.
        fill: value of an output pixel whose single tap lies outside (padding with a constant).
    """

    rows: AxisTaps
    columns: AxisTaps
    fill: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PixelShuffle(Operator):
    """out[c, y * factor + i, x * factor + j] = in[c', y, x]: channels become pixels.

    Attributes:
        phase_major: whether c' is (i * factor + j) * channels + c, otherwise c * factor**2 + i * factor + j (torch).
    """

    factor: int
    phase_major: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Select(Operator):
    """Output channel i is input channel ``channels[i]``: slices, chunks, channel shuffle."""

    channels: tuple[int, ...]

    @property
    def is_together(self) -> bool:
        """Whether the channels are consecutive: a slice."""
        first = self.channels[0]
        return self.channels == tuple(range(first, first + len(self.channels)))


@dataclass(frozen=True, slots=True, kw_only=True)
class GlobalMean(Operator):
    """The mean over all pixels: global, one pixel. Computed anew when any pixel changed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Concat(Operator):
    """Concatenation of feature maps along their channels."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Convert(Operator):
    """Conversion of floats to levels, or of levels to floats or other levels, as the tensors say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pointwise(Operator):
    """Any other call that treats every pixel alike and on its own.

    Attributes:
        call: ``call(*arguments)`` on tensors [1, channels, pixels, 1] gives the output of just these pixels.
        arguments: arguments of ``call``; :class:`TensorRef` stands for an input.
    """

    call: Callable[..., torch.Tensor]
    arguments: tuple[Any, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Global(Operator):
    """Any ATen call, computed from completed tensors.

    Attributes:
        known: False where the operator may not really be global, as this package does not know it: the user is told.
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
        input: name of the input, a feature map [1, 3, height, width].
        outputs: (name for the user, name of the tensor), in the model's order.
    """

    input: str
    outputs: tuple[tuple[str, str], ...]
    operators: tuple[Operator, ...]
    tensors: dict[str, TensorSpec]

    @property
    def unknown(self) -> tuple[str, ...]:
        """The ATen names of the operators that run densely because this package does not know them."""
        return tuple(sorted({o.target for o in self.operators if isinstance(o, Global) and not o.known}))

    def flops(self, operator: Operator) -> int:
        """Return the flops of a convolution or linear layer; for others, which take few or unknown ones, 0."""
        return operator.flops_per_pixel * self.tensors[operator.output].pixels if isinstance(operator, Conv) else 0

    @property
    def total_flops(self) -> int:
        """The flops of all convolutions and linear layers, for one frame."""
        return sum(self.flops(operator) for operator in self.operators)


def references(arguments: Any) -> tuple[str, ...]:
    """Return the names of the tensors that the arguments of a call refer to, each once, in order."""
    if isinstance(arguments, TensorRef):
        return (arguments.name,)
    if isinstance(arguments, dict):
        arguments = tuple(arguments.values())
    if not isinstance(arguments, (tuple, list)):
        return ()
    return tuple(dict.fromkeys(name for item in arguments for name in references(item)))


def resolve(arguments: Any, tensors: Callable[[str], Any]) -> Any:
    """Return the arguments of a call with every reference replaced by ``tensors(name)``."""
    if isinstance(arguments, TensorRef):
        return tensors(arguments.name)
    if isinstance(arguments, dict):
        return {key: resolve(value, tensors) for key, value in arguments.items()}
    if isinstance(arguments, (tuple, list)):
        return type(arguments)(resolve(item, tensors) for item in arguments)
    return arguments
