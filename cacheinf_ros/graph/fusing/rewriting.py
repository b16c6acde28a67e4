# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""What a rewriting rule sees of the graph (:class:`Done`), and what it returns (:class:`Rewrite`)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeVar

from cacheinf_ros.graph.ir import Graph, Operator, TensorSpec

Kind = TypeVar("Kind", bound=Operator)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewrite:
    """What replaces an operator, and the producers that it takes in.

    Attributes:
        absorbed: producers that are removed with it.
        operators: new operators in order of execution, the last with the operator's output; none with ``same_as``.
        same_as: name of a tensor that replaces the operator's output; empty: none does.
        tensors: new ones, or ones with a new shape.
    """

    absorbed: tuple[Operator, ...] = ()
    operators: tuple[Operator, ...] = ()
    same_as: str = ""
    tensors: tuple[TensorSpec, ...] = ()


class Done:
    """The operators that were fused already, with the tensors and the number of reads of the whole graph.

    Attributes:
        operators: operators by output, in order of execution.
        tensors: tensors by name.
    """

    def __init__(self, graph: Graph) -> None:
        self.operators: dict[str, Operator] = {}
        self.tensors: dict[str, TensorSpec] = dict(graph.tensors)
        self._reads = Counter(name for operator in graph.operators for name in operator.inputs)
        self._reads.update(tensor for _, tensor in graph.outputs)

    def made_by(self, name: str, kind: type[Kind]) -> Kind | None:
        """Return the operator that makes a tensor, if it is of this kind; otherwise None."""
        operator = self.operators.get(name)
        return operator if isinstance(operator, kind) else None

    def sole(self, name: str, kind: type[Kind]) -> Kind | None:
        """Return the operator of this kind that makes a tensor, if the tensor is read only once; otherwise None."""
        return self.made_by(name, kind) if self._reads[name] == 1 else None

    def is_read(self, name: str) -> bool:
        """Tell whether anybody reads a tensor."""
        return self._reads[name] > 0

    def add(self, operator: Operator) -> None:
        """Add an operator whose reads were counted."""
        self.operators[operator.output] = operator

    def remove(self, operator: Operator) -> None:
        """Remove an operator that another one took in."""
        del self.operators[operator.output]

    def declare(self, tensors: Iterable[TensorSpec]) -> None:
        """Declare tensors that are new or change their shape."""
        self.tensors.update((spec.name, spec) for spec in tensors)

    def read(self, names: Iterable[str]) -> None:
        """Count reads of tensors."""
        self._reads.update(names)

    def unread(self, names: Iterable[str]) -> None:
        """Take reads back, and remove operators whose result nobody reads any more."""
        for name in names:
            self._reads[name] -= 1
            if not self._reads[name] and name in self.operators:
                self.unread(self.operators.pop(name).inputs)

    def same(self, name: str, other: str) -> None:
        """Count the reads of a tensor for the other one, which replaces it."""
        self._reads[other] += self._reads.pop(name)
