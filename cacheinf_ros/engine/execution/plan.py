"""From a graph to steps: which set belongs to which tensor, and in which order they are filled.

Operators with the same inputs and the same window share a set, and no set is allocated while frames are processed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from cacheinf_ros.engine.buffers import MapBuffer
from cacheinf_ros.engine.execution.active import ActiveSet, Size
from cacheinf_ros.engine.execution.growth import Reach
from cacheinf_ros.engine.execution.steps import Call, Compute, Flood, Grow, Step, Unite
from cacheinf_ros.engine.truncation import Truncation
from cacheinf_ros.graph.ir import (
    Concat,
    Conv,
    Global,
    GlobalMean,
    Graph,
    Operator,
    PixelShuffle,
    Pool,
    Resample,
    Select,
)
from cacheinf_ros.graph.window import Window


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Plan:
    """Steps in order of execution.

    Attributes:
        input: the changed pixels of the model's input; whoever runs the plan fills it.
        changed: by tensor, the pixels whose value changed.
    """

    steps: tuple[Step, ...]
    input: ActiveSet
    changed: Mapping[str, ActiveSet]


def make_plan(graph: Graph, maps: Mapping[str, MapBuffer], truncations: Mapping[str, Truncation]) -> Plan:
    """Plan the execution of a graph.

    Args:
        maps: buffers by tensor; a concatenation's inputs may lie inside its output.
        truncations: by tensor; tensors without one pass on every pixel that was computed.
    """
    return _Planner(graph, maps, truncations).plan()


class _Planner:
    def __init__(self, graph: Graph, maps: Mapping[str, MapBuffer], truncations: Mapping[str, Truncation]) -> None:
        self._graph = graph
        self._maps = maps
        self._truncations = truncations
        self._steps: list[Step] = []
        self._all_rows = np.arange(max(m.size[0] * m.size[1] for m in maps.values()), dtype=np.int32)
        self._grown: dict[tuple[int, Window | tuple[bytes, bytes]], ActiveSet] = {}
        self._united: dict[frozenset[int], ActiveSet] = {}
        self._flooded: dict[tuple[int, Size], ActiveSet] = {}
        self._changed: dict[str, ActiveSet] = {graph.input: self._new(maps[graph.input].size)}

    def plan(self) -> Plan:
        for operator in self._graph.operators:
            self._add(operator)
        return Plan(steps=tuple(self._steps), input=self._changed[self._graph.input], changed=self._changed)

    def _add(self, operator: Operator) -> None:
        if isinstance(operator, Global):
            self._call(operator)
        elif isinstance(operator, Concat):
            self._concat(operator)
        elif self._is_view(operator):
            self._changed[operator.output] = self._changed[operator.inputs[0]]
        else:
            active = self._active(operator)
            sources = tuple(self._maps[name] for name in operator.inputs)
            self._compute(operator, sources, self._maps[operator.output], active)

    def _is_view(self, operator: Operator) -> bool:
        """A selection of channels that lie together is no copy."""
        source, out = self._maps[operator.inputs[0]], self._maps[operator.output]
        return isinstance(operator, Select) and out.begins_within(source)

    def _compute(
        self, operator: Operator, sources: tuple[MapBuffer, ...], out: MapBuffer, active: ActiveSet
    ) -> ActiveSet:
        truncation = self._truncations.get(operator.output)
        changed = self._new(active.size) if truncation else active
        step = Compute(
            operator=operator, sources=sources, out=out, active=active, changed=changed, truncation=truncation
        )
        self._steps.append(step)
        self._changed[operator.output] = changed
        return changed

    def _active(self, operator: Operator) -> ActiveSet:
        """The pixels to compute: those that depend on a changed pixel of an input."""
        sets = [self._changed[name] for name in operator.inputs]
        size = self._maps[operator.output].size
        if isinstance(operator, (Conv, Pool)):
            sets[0] = self._grow(sets[0], operator.window)
        elif isinstance(operator, Resample):
            sets[0] = self._grow(sets[0], Reach.of_taps(operator.rows, operator.columns))
        elif isinstance(operator, PixelShuffle):
            sets[0] = self._grow(sets[0], Reach.of_shuffle(sets[0].size, operator.factor))
        elif isinstance(operator, GlobalMean):
            sets[0] = self._flood(sets[0], (1, 1))
        return self._unite([s if s.size == size else self._flood(s, size) for s in sets])

    def _concat(self, operator: Concat) -> None:
        """Inputs that do not lie inside the output are copied there, each where it changed."""
        out, first, sets = self._maps[operator.output], 0, []
        for name in operator.inputs:
            source, count = self._maps[name], self._graph.tensors[name].channels
            part = out.channels(first, count)
            sets.append(self._changed[name])
            if not part.is_same_as(source):
                copy = Select(
                    name=f"{operator.name}:{first}", inputs=(name,), output=f"{operator.output}:{first}",
                    channels=tuple(range(count)),
                )  # fmt: skip
                self._compute(copy, (source,), part, self._changed[name])
            first += count
        self._changed[operator.output] = self._unite(sets)

    def _call(self, operator: Global) -> None:
        out = self._maps.get(operator.output)
        changed = self._new(out.size if out else (1, 1))
        inputs = tuple(self._changed[name] for name in operator.inputs)
        self._steps.append(Call(operator=operator, inputs=inputs, out=out, changed=changed))
        self._changed[operator.output] = changed

    def _grow(self, source: ActiveSet, through: Window | Reach) -> ActiveSet:
        if isinstance(through, Window):
            if through.is_pointwise:
                return source
            key: Window | tuple[bytes, bytes] = through
            size = through.out_size
        else:
            key = (through.rows.tobytes(), through.columns.tobytes())
            size = through.out_size
        if (id(source), key) not in self._grown:
            target = self._new(size)
            self._grown[id(source), key] = target
            self._steps.append(Grow(source=source, target=target, through=through))
        return self._grown[id(source), key]

    def _unite(self, sources: Sequence[ActiveSet]) -> ActiveSet:
        distinct = list({id(source): source for source in sources}.values())
        key = frozenset(map(id, distinct))
        if len(distinct) == 1:
            return distinct[0]
        if key not in self._united:
            target, united = self._new(distinct[0].size), distinct[0]
            for source in distinct[1:]:
                self._steps.append(Unite(first=united, second=source, target=target))
                united = target
            self._united[key] = target
        return self._united[key]

    def _flood(self, source: ActiveSet, size: Size) -> ActiveSet:
        if (id(source), size) not in self._flooded:
            target = self._new(size)
            self._flooded[id(source), size] = target
            self._steps.append(Flood(source=source, target=target))
        return self._flooded[id(source), size]

    def _new(self, size: Size) -> ActiveSet:
        return ActiveSet(size, self._all_rows)
