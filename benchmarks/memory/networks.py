# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The networks of the memory planner's paper, as its runtime saw them (Pisarchyk and Lee, 2020, section 6).

Float32, activations and batch norm fused into the operators before them; inputs, outputs and weights are not among the
intermediate tensors. Shapes are (height, width, channels), padding is "same" unless said otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TypeAlias

from cacheinf_ros.memory import TensorRecord

Shape: TypeAlias = tuple[int, int, int]
Tensor: TypeAlias = int  # index of the operator that writes it; the network's input: -1
INPUT: Tensor = -1
_BYTES = 4
_CLASSES = 1001  # with "background"


class Tape:
    """Operators in the order of execution, each with one output."""

    def __init__(self, size: int) -> None:
        self._input: Shape = (size, size, 3)
        self._shapes: list[Shape] = []
        self._last: list[int] = []  # operator that last reads each output

    def shape(self, tensor: Tensor) -> Shape:
        """(height, width, channels)."""
        return self._input if tensor == INPUT else self._shapes[tensor]

    def add(self, inputs: Sequence[Tensor], shape: Shape) -> Tensor:
        """Note an operator; what it writes."""
        operator = len(self._shapes)
        for tensor in inputs:
            if tensor != INPUT:
                self._last[tensor] = operator
        self._shapes.append(shape)
        self._last.append(operator)
        return operator

    def window(
        self, x: Tensor, kernel: int, stride: int = 1, channels: int | None = None, *, valid: bool = False
    ) -> Tensor:
        """A convolution, or with no number of channels a pooling or depthwise convolution."""
        height, width, before = self.shape(x)
        lost = kernel - 1 if valid else 0
        height, width = (-(-(side - lost) // stride) for side in (height, width))
        return self.add([x], (height, width, before if channels is None else channels))

    def concatenate(self, inputs: Sequence[Tensor]) -> Tensor:
        """Behind one another, along the channels."""
        height, width, _ = self.shape(inputs[0])
        return self.add(inputs, (height, width, sum(self.shape(x)[2] for x in inputs)))

    def classify(self, x: Tensor) -> None:
        """Mean over the picture, 1x1 convolution, reshape, softmax."""
        x = self.add([x], (1, 1, self.shape(x)[2]))
        x = self.add([x], (1, 1, _CLASSES))
        x = self.add([x], (1, 1, _CLASSES))
        self.add([x], (1, 1, _CLASSES))

    def records(self) -> list[TensorRecord]:
        """Of every tensor but the input and the output, which is what the last operator writes."""
        return [
            TensorRecord(size=_BYTES * height * width * channels, first=operator, last=last, name=f"tensor {operator}")
            for operator, ((height, width, channels), last) in enumerate(zip(self._shapes, self._last, strict=True))
        ][:-1]


def mobilenet_v1() -> list[TensorRecord]:
    """Howard et al. (2017), table 1; 224 x 224."""
    tape = Tape(224)
    x = tape.window(INPUT, 3, 2, 32)
    for stride, channels in (
        (1, 64),
        (2, 128),
        (1, 128),
        (2, 256),
        (1, 256),
        (2, 512),
        *[(1, 512)] * 5,
        (2, 1024),
        (1, 1024),
    ):
        x = tape.window(tape.window(x, 3, stride), 1, 1, channels)
    tape.classify(x)
    return tape.records()


def mobilenet_v2() -> list[TensorRecord]:
    """Sandler et al. (2018), table 2; 224 x 224."""
    tape = Tape(224)
    x = tape.window(INPUT, 3, 2, 32)
    for expansion, channels, repeats, stride in (
        (1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1),
    ):  # fmt: skip
        for i in range(repeats):
            before, y = x, x
            if expansion > 1:
                y = tape.window(y, 1, 1, expansion * tape.shape(x)[2])
            y = tape.window(tape.window(y, 3, stride if i == 0 else 1), 1, 1, channels)
            x = tape.add([before, y], tape.shape(y)) if tape.shape(before) == tape.shape(y) else y
    tape.classify(tape.window(x, 1, 1, 1280))
    return tape.records()


def inception_v3() -> list[TensorRecord]:
    """Szegedy et al. (2016), table 1, with the modules as in TensorFlow's Slim; 299 x 299."""
    tape = Tape(299)
    x = tape.window(INPUT, 3, 2, 32, valid=True)
    x = tape.window(tape.window(x, 3, 1, 32, valid=True), 3, 1, 64)
    x = tape.window(x, 3, 2, valid=True)
    x = tape.window(tape.window(x, 1, 1, 80, valid=True), 3, 1, 192, valid=True)
    x = tape.window(x, 3, 2, valid=True)

    def chain(start: Tensor, *layers: tuple[int, int]) -> Tensor:
        for kernel, channels in layers:
            start = tape.window(start, kernel, 1, channels)
        return start

    def pooled(start: Tensor, channels: int) -> Tensor:
        return chain(tape.window(start, 3), (1, channels))

    for channels in (32, 64, 64):
        branches = [chain(x, (1, 64)), chain(x, (1, 48), (5, 64)), chain(x, (1, 64), (3, 96), (3, 96))]
        x = tape.concatenate([*branches, pooled(x, channels)])
    branches = [tape.window(x, 3, 2, 384, valid=True)]
    branches.append(tape.window(chain(x, (1, 64), (3, 96)), 3, 2, 96, valid=True))
    x = tape.concatenate([*branches, tape.window(x, 3, 2, valid=True)])
    for c in (128, 160, 160, 192):
        branches = [chain(x, (1, 192)), chain(x, (1, c), (7, c), (7, 192))]
        branches.append(chain(x, (1, c), (7, c), (7, c), (7, c), (7, 192)))
        x = tape.concatenate([*branches, pooled(x, 192)])
    branches = [tape.window(chain(x, (1, 192)), 3, 2, 320, valid=True)]
    branches.append(tape.window(chain(x, (1, 192), (7, 192), (7, 192)), 3, 2, 192, valid=True))
    x = tape.concatenate([*branches, tape.window(x, 3, 2, valid=True)])
    for _ in range(2):
        one, two = chain(x, (1, 320)), chain(x, (1, 384))
        two = tape.concatenate([chain(two, (3, 384)), chain(two, (3, 384))])
        three = chain(x, (1, 448), (3, 384))
        three = tape.concatenate([chain(three, (3, 384)), chain(three, (3, 384))])
        x = tape.concatenate([one, two, three, pooled(x, 192)])
    tape.classify(x)
    return tape.records()


PAPER_NETWORKS: Mapping[str, Callable[[], list[TensorRecord]]] = MappingProxyType(
    {"mobilenet_v1": mobilenet_v1, "mobilenet_v2": mobilenet_v2, "inception_v3": inception_v3}
)
