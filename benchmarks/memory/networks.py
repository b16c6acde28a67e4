# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The networks of the memory planner's paper, as its runtime saw them (Pisarchyk and Lee, 2020, section 6).

Tensors are float32, with activations, batch norm and identities fused into the operators before them; channels are
rounded up to four, as in the GPU's layout. Inputs, outputs and weights are not among the intermediate tensors. The sum
of all sizes (the paper's row "naive") shows which graphs it used: it agrees for all but Inception v3 and BlazeFace.
Shapes are (height, width, channels), padding is "same" unless said otherwise.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TypeAlias

from cacheinf_ros.memory import TensorRecord
from cacheinf_ros.memory.records import aligned

Shape: TypeAlias = tuple[int, int, int]
Tensor: TypeAlias = int  # index of the operator that writes it; -1 for the network's input
INPUT: Tensor = -1
_BYTES = 4
_SLICE = 4  # channels are stored in groups of so many
_CLASSES = 1001  # with "background"
_UNKNOWN = 232  # floats of a tensor of Inception v3 that the paper does not name


class Tape:
    """A recorded sequence of operators in their order of execution, each with one output."""

    def __init__(self, height: int, width: int | None = None) -> None:
        """Begin with an input of ``height`` x ``width`` pixels; it is square where no width is given."""
        self._input: Shape = (height, height if width is None else width, 3)
        self._shapes: list[Shape] = []
        self._inputs: list[list[Tensor]] = []
        self._is_weighted: list[bool] = []

    def shape(self, tensor: Tensor) -> Shape:
        """Return a tensor's (height, width, channels)."""
        return self._input if tensor == INPUT else self._shapes[tensor]

    def add(self, inputs: Sequence[Tensor], shape: Shape, *, is_weighted: bool = False) -> Tensor:
        """Record an operator, which may have weights and an activation; return the tensor that it writes."""
        self._is_weighted.append(is_weighted)
        self._inputs.append([tensor for tensor in inputs if tensor != INPUT])
        self._shapes.append(shape)
        return len(self._shapes) - 1

    def window(
        self, x: Tensor, kernel: int, stride: int = 1, channels: int | None = None, *, valid: bool = False
    ) -> Tensor:
        """Record a convolution; without a number of channels, a pooling or depthwise convolution."""
        height, width, before = self.shape(x)
        lost = kernel - 1 if valid else 0
        height, width = (-(-(side - lost) // stride) for side in (height, width))
        shape = (height, width, before if channels is None else channels)
        return self.add([x], shape, is_weighted=channels is not None)

    def concatenate(self, inputs: Sequence[Tensor]) -> Tensor:
        """Record a concatenation along the channels."""
        height, width, _ = self.shape(inputs[0])
        return self.add(inputs, (height, width, sum(self.shape(x)[2] for x in inputs)))

    def classify(self, x: Tensor) -> None:
        """Record a mean over the picture, a 1x1 convolution, a reshape and a softmax."""
        x = self.add([x], (1, 1, self.shape(x)[2]))
        x = self.add([x], (1, 1, _CLASSES))
        x = self.add([x], (1, 1, _CLASSES))
        self.add([x], (1, 1, _CLASSES))

    def records(self, *, outputs: Sequence[Tensor] = (), by_level: bool = False) -> list[TensorRecord]:
        """Describe every tensor except the input and the outputs: what the last operator writes, and ``outputs``.

        With ``by_level``, operators run in the order in which their inputs are complete, instead of the tape's order.
        """
        order = self._by_level() if by_level else range(len(self._shapes))
        position = {tensor: index for index, tensor in enumerate(order)}
        last = dict(position)
        for reader, inputs in enumerate(self._inputs):
            for tensor in inputs:
                last[tensor] = max(last[tensor], position[reader])
        skipped = {*outputs, len(self._shapes) - 1}
        return [
            TensorRecord(
                size=_BYTES * height * width * aligned(channels, _SLICE),
                first=position[tensor],
                last=last[tensor],
                name=f"tensor {tensor}",
            )
            for tensor in order
            if tensor not in skipped
            for height, width, channels in [self._shapes[tensor]]
        ]

    def _by_level(self) -> list[Tensor]:
        """Return the operators in the order in which their inputs are complete.

        Those with weights count as two steps, as their activation was an operator of its own before the graph was
        fused.
        """
        missing = [len(inputs) for inputs in self._inputs]
        ready = deque((index, 0) for index, count in enumerate(missing) if count == 0)
        order: list[Tensor] = []
        while ready:
            done, step = ready.popleft()
            if step == 0:
                order.append(done)
            if step == 0 and self._is_weighted[done]:
                ready.append((done, 1))
                continue
            for reader, inputs in enumerate(self._inputs):
                missing[reader] -= inputs.count(done)
                if done in inputs and missing[reader] == 0:
                    ready.append((reader, 0))
        return order


def mobilenet_v1() -> list[TensorRecord]:
    """Build MobileNet v1, Howard et al. (2017), table 1; 224 x 224."""
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
    """Build MobileNet v2, Sandler et al. (2018), table 2; 224 x 224."""
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


def deeplab_v3() -> list[TensorRecord]:
    """Build DeepLab v3, Chen et al. (2017), on a half-width MobileNet v2, atrous from stride 8 on; 257 x 257."""
    tape = Tape(257)
    x = tape.window(tape.window(INPUT, 3, 2, 16), 3)
    x = tape.window(x, 1, 1, 8)
    for channels, repeats, stride in ((12, 2, 2), (16, 3, 2), (32, 4, 1), (48, 3, 1), (80, 3, 1), (160, 1, 1)):
        for i in range(repeats):
            y = tape.window(x, 1, 1, 6 * tape.shape(x)[2])
            y = tape.window(tape.window(y, 3, stride if i == 0 else 1), 1, 1, channels)
            x = tape.add([x, y], tape.shape(y)) if i > 0 else y
    height, width, _ = tape.shape(x)
    local = tape.window(x, 1, 1, 256)
    whole = tape.add([tape.add([x], (1, 1, 160))], (1, 1, 256))  # the mean over the picture, and a convolution of it
    whole = tape.add([whole], (height, width, 256))
    x = tape.window(tape.concatenate([whole, local]), 1, 1, 256)
    tape.add([tape.window(x, 1, 1, 21)], (257, 257, 21))
    return tape.records()


def posenet() -> list[TensorRecord]:
    """Build PoseNet: MobileNet v1 of three quarters of its width at stride 16, with four heads; 353 x 257.

    The paper cites Kendall et al. (2015); its numbers are those of TensorFlow Lite's pose network of this name.
    """
    tape = Tape(353, 257)
    x = tape.window(INPUT, 3, 2, 24)
    for stride, channels in ((1, 48), (2, 96), (1, 96), (2, 192), (1, 192), (2, 384), *[(1, 384)] * 7):
        x = tape.window(tape.window(x, 3, stride), 1, 1, channels)
    heads = [tape.window(x, 1, 1, 17), tape.window(x, 1, 1, 34)]
    tape.concatenate([tape.window(x, 1, 1, 32), tape.window(x, 1, 1, 32)])  # forward and backward displacements
    return tape.records(outputs=heads)


def blazeface() -> list[TensorRecord]:
    """Build BlazeFace, Bazarevsky et al. (2019), table 4; 128 x 128; convolutions add the shortcuts beside them."""
    tape = Tape(128)

    def block(x: Tensor, stride: int, *widths: int) -> Tensor:
        shortcut = x if stride == 1 else tape.window(x, stride, stride)
        for i, channels in enumerate(widths):
            x = tape.window(x, 5, stride if i == 0 else 1)
            height, width, _ = tape.shape(x)
            x = tape.add([x, shortcut] if i == len(widths) - 1 else [x], (height, width, channels))
        return x

    x = tape.window(INPUT, 5, 2, 24)
    for stride, channels in ((1, 24), (1, 24), (2, 48), (1, 48), (1, 48)):
        x = block(x, stride, channels)
    for stride in (2, 1, 1):
        x = block(x, stride, 24, 96)
    coarse = x
    for stride in (2, 1, 1):
        coarse = block(coarse, stride, 24, 96)
    heads = [tape.window(level, 1, 1, anchors * 17) for level, anchors in ((x, 2), (coarse, 6))]
    return tape.records(outputs=heads)


def inception_v3() -> list[TensorRecord]:
    """Build Inception v3, Szegedy et al. (2016), table 1, level by level; 299 x 299.

    A concatenation of concatenations is one operator.

    Both bounds and three strategies of table 1 take 214 to 253 floats more than that. Something small must be alive all
    the time; it is added here, though the paper does not say what it is.
    """
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
        three = chain(x, (1, 448), (3, 384))
        halves = [chain(start, (3, 384)) for start in (two, two, three, three)]
        x = tape.concatenate([one, *halves, pooled(x, 192)])
    tape.classify(x)
    records = tape.records(by_level=True)
    end = max(record.last for record in records)
    return [TensorRecord(size=_BYTES * _UNKNOWN, first=0, last=end, name="unknown"), *records]


PAPER_NETWORKS: Mapping[str, Callable[[], list[TensorRecord]]] = MappingProxyType(
    {
        "mobilenet_v1": mobilenet_v1,
        "mobilenet_v2": mobilenet_v2,
        "deeplab_v3": deeplab_v3,
        "inception_v3": inception_v3,
        "posenet": posenet,
        "blazeface": blazeface,
    }
)
"""Functions that build the networks, in the order of the paper's tables."""
