# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Turns a graph into steps: which active set belongs to which tensor, and in which order the sets are filled.

Operators with the same inputs and the same window share a set, and no set is allocated while frames are processed.

Maps that are not kept between frames are empty when a frame begins. Before an operator whose output is kept, the
dropped maps that it reads are computed where it reads them: active sets propagate forwards through all operators, and
then back from that operator to the nearest maps that are kept (CacheInf section 4.2; the halo is the composed receptive
field of the operators in between). Pixels already computed for another operator in the same frame are left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cacheinf_ros.engine.caching import EVERYTHING, Caching
from cacheinf_ros.engine.delta_threshold import DeltaThreshold
from cacheinf_ros.engine.execution.access_pattern import AccessPattern, Footprint, access_patterns
from cacheinf_ros.engine.execution.active import ActiveSet, Size
from cacheinf_ros.engine.execution.steps import Call, Compute, Difference, FillIfAny, Propagate, Step, Union
from cacheinf_ros.engine.layout import Layout
from cacheinf_ros.engine.partition.replicas import TensorReplica
from cacheinf_ros.errors import EngineError
from cacheinf_ros.graph.ir import Global, GlobalMean, Operator


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Plan:
    """The steps that compute a frame, in order of execution.

    Attributes:
        input: the changed pixels of the model's input; whoever runs the plan fills it.
        changed: by tensor, for the input and all that is computed, the pixels whose value may have changed.
    """

    steps: tuple[Step, ...]
    input: ActiveSet
    changed: Mapping[str, ActiveSet]

    @property
    def propagated_pixels(self) -> int:
        """The total size, in pixels, of the sets that are filled by steps that only propagate or combine sets."""
        growing = (Propagate, Union, Difference, FillIfAny)
        return sum(step.target.pixels for step in self.steps if isinstance(step, growing))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Structure:
    """What all plans of a graph have in common.

    Attributes:
        layout: where the graph's tensors lie.
        patterns: by operator's output, the access patterns of the operators that read other pixels than they write.
        all_pixels: int32, 0, 1, 2, ..., one entry for each pixel of the largest map.
    """

    layout: Layout
    patterns: Mapping[str, AccessPattern]
    all_pixels: NDArray[np.int32]

    @classmethod
    def of(cls, layout: Layout) -> Structure:
        """Find the structure of a graph."""
        largest = max(layout.spec(name).pixels for name in layout.maps)
        return cls(layout=layout, patterns=access_patterns(layout), all_pixels=np.arange(largest, dtype=np.int32))


class Planning:
    """A plan that is being made.

    Attributes:
        steps: the steps that have been added so far.
        changed: as in :class:`Plan`, for the tensors that have been planned so far.
    """

    def __init__(
        self,
        structure: Structure,
        thresholds: Mapping[str, DeltaThreshold],
        caching: Caching = EVERYTHING,
        supplies: Mapping[str, Sequence[Operator]] | None = None,
    ) -> None:
        """Begin an empty plan.

        Args:
            structure: what all plans of the graph have in common.
            thresholds: by tensor, for those of which small changes are held back.
            caching: which maps are kept.
            supplies: by an operator's kept output, the operators to compute anew before it; None: there are none.
        """
        self.steps: list[Step] = []
        self._layout = structure.layout
        self._structure = structure
        self._thresholds = thresholds
        self._caching = caching
        self._supplies = supplies or {}
        self._propagated: dict[tuple[int, Footprint, bool], ActiveSet] = {}
        self._unions: dict[frozenset[int], ActiveSet] = {}
        self._filled: dict[tuple[int, Size], ActiveSet] = {}
        self._done: dict[str, list[ActiveSet]] = {}  # by dropped tensor, the sets that have been computed of it
        graph = self._layout.graph
        self._input = self._new(graph.tensors[graph.input].size)
        self.changed: dict[str, ActiveSet] = {graph.input: self._input}

    def plan(self) -> Plan:
        """Plan all operators in order."""
        for operator in self._layout.operators:
            if isinstance(operator, Global):
                self._call(operator)
            else:
                self._add_local(operator, self._active(operator), self._thresholds.get(operator.output))
        self._finish()
        return Plan(steps=tuple(self.steps), input=self._input, changed=self.changed)

    def _add_local(self, operator: Operator, active: ActiveSet, delta: DeltaThreshold | None) -> None:
        """Add the steps that compute the active pixels of a local operator's output."""
        if self._is_dropped(operator.output):
            self.changed[operator.output] = active
        else:
            self._supply(operator, active)
            self.changed[operator.output] = self._compute(operator, active, delta)

    def _publish(self, tensor: str, changed: ActiveSet, active: ActiveSet) -> None:
        """Record which pixels of a tensor may have changed, here (``changed``) and on any machine (``active``)."""
        self.changed[tensor] = changed

    def _replica(self, tensor: str) -> TensorReplica | None:
        """Return what another machine has of a tensor; None: there is no other machine."""
        return None

    def _finish(self) -> None:
        """Add the steps that come after all operators; here there are none."""

    def _is_dropped(self, leaf: str) -> bool:
        return self._layout.root(leaf) in self._caching.dropped

    def _compute(self, operator: Operator, active: ActiveSet, delta: DeltaThreshold | None = None) -> ActiveSet:
        changed = self._new(active.size) if delta else active
        self.steps.append(Compute(operator=operator, active=active, changed=changed, delta=delta))
        return changed

    def _active(self, operator: Operator) -> ActiveSet:
        """Return the pixels of an operator's output that depend on a changed pixel of an input."""
        size = self._layout.spec(operator.output).size
        if self._caching.dense:
            return self._fill_if_any(self._input, size)
        sets = [self._changed_of(name) for name in operator.inputs]
        if operator.output in self._structure.patterns:
            sets[0] = self._propagate(sets[0], self._structure.patterns[operator.output].forward)
        elif isinstance(operator, GlobalMean):
            sets[0] = self._fill_if_any(sets[0], (1, 1))
        return self._union([s if s.size == size else self._fill_if_any(s, size) for s in sets])

    def _supply(self, consumer: Operator, active: ActiveSet) -> None:
        """Add steps that compute the pixels of dropped maps that an operator reads, as far as they are missing."""
        chain = self._supplies[consumer.output]
        needed: dict[str, list[ActiveSet]] = {producer.output: [] for producer in chain}
        self._need(consumer, active, needed)
        missing: list[tuple[Operator, ActiveSet]] = []
        for producer in reversed(chain):
            rest = self._missing(producer.output, needed[producer.output])
            if rest is not None:
                self._need(producer, rest, needed)
                missing.append((producer, rest))
        for producer, rest in reversed(missing):
            self._compute(producer, rest)

    def _need(self, operator: Operator, active: ActiveSet, needed: dict[str, list[ActiveSet]]) -> None:
        """Add to ``needed``, by dropped map, the pixels that an operator reads in order to compute active ones."""
        for position, name in enumerate(operator.inputs):
            for leaf in self._layout.leaves[name]:
                if leaf not in needed:
                    continue
                if isinstance(operator, GlobalMean) or self._caching.dense:
                    needed[leaf].append(self._whole(active, self._layout.spec(leaf).size))
                elif position == 0 and operator.output in self._structure.patterns:
                    needed[leaf].append(
                        self._propagate(active, self._structure.patterns[operator.output].back, inwards=True)
                    )
                else:
                    needed[leaf].append(active)

    def _whole(self, active: ActiveSet, size: Size) -> ActiveSet:
        """Return the set of all pixels of a map, filled when anything changed, as this is the only time it is computed.

        ``active``: the pixels that are to be computed from it.
        """
        return self._fill_if_any(self._input, size)

    def _missing(self, leaf: str, needed: Sequence[ActiveSet]) -> ActiveSet | None:
        """Return the needed pixels of a map that have not been computed yet; None: there are none."""
        if not needed:
            return None
        wanted, done = self._union(needed), self._done.setdefault(leaf, [])
        if any(wanted is some for some in done):
            return None
        missing = wanted
        if done:
            missing = self._new(wanted.size)
            self.steps.append(Difference(source=wanted, without=self._union(done), target=missing))
        done.append(wanted)
        return missing

    def _call(self, operator: Global) -> None:
        is_map = operator.output in self._layout.maps
        changed = self._new(self._layout.spec(operator.output).size if is_map else (1, 1))
        inputs = tuple([self._changed_of(name) for name in operator.inputs])
        replica = self._replica(operator.output)
        self.steps.append(Call(operator=operator, inputs=inputs, changed=changed, replica=replica))
        self._publish(operator.output, changed, changed)

    def _changed_of(self, name: str) -> ActiveSet:
        return self._union([self.changed[leaf] for leaf in self._layout.leaves[name]])

    def _propagate(self, source: ActiveSet, footprint: Footprint, *, inwards: bool = False) -> ActiveSet:
        key = id(source), footprint, inwards
        if key not in self._propagated:
            target = self._new(footprint.out_size)
            self._propagated[key] = target
            self.steps.append(Propagate(source=source, target=target, footprint=footprint, inwards=inwards))
        return self._propagated[key]

    def _union(self, sources: Sequence[ActiveSet]) -> ActiveSet:
        distinct = list({id(source): source for source in sources}.values())
        key = frozenset(map(id, distinct))
        if len(distinct) == 1:
            return distinct[0]
        if key not in self._unions:
            if len({source.size for source in distinct}) > 1:  # compiled code does not check it
                raise EngineError("internal error: sets of different sizes are to be united")
            target, union = self._new(distinct[0].size), distinct[0]
            for source in distinct[1:]:
                self.steps.append(Union(first=union, second=source, target=target))
                union = target
            self._unions[key] = target
        return self._unions[key]

    def _fill_if_any(self, source: ActiveSet, size: Size) -> ActiveSet:
        if (id(source), size) not in self._filled:
            target = self._new(size)
            self._filled[id(source), size] = target
            self.steps.append(FillIfAny(source=source, target=target))
        return self._filled[id(source), size]

    def _new(self, size: Size) -> ActiveSet:
        return ActiveSet(size, self._structure.all_pixels)
