# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""What a rule sees of the graph, and what it answers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeVar

from cacheinf_ros.graph.ir import Graph, Operator, TensorSpec

Kind = TypeVar("Kind", bound=Operator)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewrite:
    """What stands for an operator and for the producers that it takes in.

    Attributes:
        absorbed: producers that end with it.
        operators: in order of execution, the last with the operator's output; none where that is ``same_as``.
        same_as: the name of a tensor.
        tensors: new ones, or ones with a new shape.
    """

    absorbed: tuple[Operator, ...] = ()
    operators: tuple[Operator, ...] = ()
    same_as: str = ""
    tensors: tuple[TensorSpec, ...] = ()


class Done:
    """The operators that were fused already, with the tensors and the number of reads of the whole graph.

    Attributes:
        operators: by output, in order of execution.
        tensors: by name.
    """

    def __init__(self, graph: Graph) -> None:
        self.operators: dict[str, Operator] = {}
        self.tensors: dict[str, TensorSpec] = dict(graph.tensors)
        self._reads = Counter(name for operator in graph.operators for name in operator.inputs)
        self._reads.update(tensor for _, tensor in graph.outputs)

    def made_by(self, name: str, kind: type[Kind]) -> Kind | None:
        """The operator that makes a tensor, if it is of this kind."""
        operator = self.operators.get(name)
        return operator if isinstance(operator, kind) else None

    def sole(self, name: str, kind: type[Kind]) -> Kind | None:
        """The operator of this kind that makes a tensor, if the tensor is read only once."""
        return self.made_by(name, kind) if self._reads[name] == 1 else None

    def is_read(self, name: str) -> bool:
        """Whether anybody reads a tensor."""
        return self._reads[name] > 0

    def add(self, operator: Operator) -> None:
        """An operator whose reads were counted."""
        self.operators[operator.output] = operator

    def remove(self, operator: Operator) -> None:
        """An operator that another took in."""
        del self.operators[operator.output]

    def declare(self, tensors: Iterable[TensorSpec]) -> None:
        """Tensors that are new or change their shape."""
        self.tensors.update((spec.name, spec) for spec in tensors)

    def read(self, names: Iterable[str]) -> None:
        """Count reads."""
        self._reads.update(names)

    def unread(self, names: Iterable[str]) -> None:
        """Take reads back; operators whose result nobody reads any more end."""
        for name in names:
            self._reads[name] -= 1
            if not self._reads[name] and name in self.operators:
                self.unread(self.operators.pop(name).inputs)

    def same(self, name: str, other: str) -> None:
        """Who was to read a tensor reads the other one."""
        self._reads[other] += self._reads.pop(name)
