# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""What each operator of a program did in the last frame, how long it took, and which of its kernels it uses."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from cacheinf_ros.engine.backends import Executor
from cacheinf_ros.engine.execution.active import ActiveSet
from cacheinf_ros.engine.execution.steps import Call, Compute, Step
from cacheinf_ros.engine.kernels import PreparedKernel
from cacheinf_ros.engine.kernels.abi import NEVER
from cacheinf_ros.engine.layout import Layout
from cacheinf_ros.graph.ir import Operator


class Profile:
    """Reports what the operators of one program did and how long they took; the program's plan may change."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._switch_from: dict[str, float] = {}

    def watch(self, steps: Sequence[Step], kernels: Mapping[str, PreparedKernel], executor: Executor) -> None:
        """Report on these steps from now on; :meth:`switch_kernels` stays in force for them.

        Args:
            kernels: the kernels by the operator's output.
        """
        self._steps, self._kernels, self._executor = steps, kernels, executor
        self._computations = [step for step in steps if isinstance(step, Compute)]
        self._index: dict[str, list[int]] = {}
        for i, step in enumerate(steps):
            if isinstance(step, Compute):
                self._index.setdefault(step.operator.output, []).append(i)
        self.switch_kernels(self._switch_from)

    @property
    def active_shares(self) -> dict[str, float]:
        """The share of its pixels that each operator computed in the last frame, by the operator's output."""
        return _by_operator((step, step.active.count / step.active.pixels) for step in self._computations)

    @property
    def microseconds(self) -> dict[str, float]:
        """The microseconds of each operator's kernel in the last frame, by the operator's output."""
        return _by_operator((step, took) for step, took in self._times() if isinstance(step, Compute))

    @property
    def propagation_microseconds(self) -> float:
        """The microseconds of filling active sets in the last frame."""
        return sum(took for step, took in self._times() if not isinstance(step, (Compute, Call)))

    def timeable(self) -> Iterator[tuple[Operator, ActiveSet]]:
        """Yield the operators that our own kernels compute without the interpreter, each with its active set."""
        for step in self._computations:
            output = step.operator.output
            if output in self._layout.graph.tensors and self._kernels[output].is_timeable:
                yield step.operator, step.active

    def has_alternative(self, output: str) -> bool:
        """Tell whether an operator has a second kernel, for many pixels."""
        return self._kernels[output].alternative is not None

    def time(self, output: str, *, alternative: bool) -> float:
        """Measure the microseconds of one of the :meth:`timeable` operators on the pixels that its set holds."""
        index = self._index[output][0]
        self._executor.switch_from(index, 0 if alternative else NEVER)
        took = self._executor.time(index)
        self._switch(output)
        return took

    def switch_kernels(self, shares: Mapping[str, float]) -> None:
        """Use an operator's second kernel from a share of active pixels on; ``shares`` are by the operator's output."""
        self._switch_from = dict(shares)
        for output in self._index:
            self._switch(output)

    def _times(self) -> Iterable[tuple[Step, float]]:
        return zip(self._steps, self._executor.microseconds.tolist(), strict=True)

    def _switch(self, output: str) -> None:
        """Tell the executor from how many pixels on an operator uses its second kernel."""
        if self._kernels[output].alternative is None:
            return
        share, pixels = self._switch_from.get(output, 2.0), self._layout.spec(output).pixels
        for index in self._index[output]:
            self._executor.switch_from(index, round(share * pixels) if share <= 1 else NEVER)


def _by_operator(figures: Iterable[tuple[Compute, float]]) -> dict[str, float]:
    """Sum figures by the operator's output: a map that is not kept may be computed in several steps."""
    sums: dict[str, float] = {}
    for step, figure in figures:
        sums[step.operator.output] = sums.get(step.operator.output, 0.0) + figure
    return sums
