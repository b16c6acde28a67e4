# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""From a graph to steps: which set belongs to which tensor, and in which order they are filled.

Operators with the same inputs and the same window share a set, and no set is allocated while frames are processed.

Maps that are not kept between frames hold nothing at first. Before an operator whose output is kept, those that it
reads are computed where it reads them: active sets grow forwards through all operators, and then back from that
operator to the next maps that are kept (CacheInf section 4.2; the halo is the composed receptive field of the operators
in between). What another one made them compute before, in the same frame, is left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from cacheinf_ros.engine.caching import EVERYTHING, Caching
from cacheinf_ros.engine.execution.access_pattern import AccessPattern, Through, spreads
from cacheinf_ros.engine.execution.active import ActiveSet, Size
from cacheinf_ros.engine.execution.steps import (
    Call,
    Compute,
    Difference,
    FillIfAny,
    Forward,
    Grow,
    LocalRows,
    Receive,
    Send,
    Step,
    Union,
)  # fmt: skip
from cacheinf_ros.engine.layout import Layout
from cacheinf_ros.engine.partition.replicas import TensorReplicas
from cacheinf_ros.engine.truncation import Truncation
from cacheinf_ros.graph.ir import Global, GlobalMean, Operator


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Plan:
    """Steps in order of execution.

    Attributes:
        input: the changed pixels of the model's input; whoever runs the plan fills it.
        changed: by tensor that is computed, the pixels whose value may have changed.
    """

    steps: tuple[Step, ...]
    input: ActiveSet
    changed: Mapping[str, ActiveSet]

    @property
    def grown_pixels(self) -> int:
        """Of all sets that steps fill which compute nothing."""
        growing = (Grow, Union, Difference, FillIfAny)
        return sum(step.target.pixels for step in self.steps if isinstance(step, growing))


class Planner:
    """Plans the execution of a graph, any number of times."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._spreads = spreads(layout)
        operators = layout.operators
        largest = max(layout.spec(name).pixels for name in layout.maps)
        self._all_rows = np.arange(largest, dtype=np.int32)
        self._producers = {operator.output: (i, operator) for i, operator in enumerate(operators)}

    def plan(
        self,
        caching: Caching = EVERYTHING,
        truncations: Mapping[str, Truncation] | None = None,
        shares: TensorReplicas | None = None,
    ) -> Plan:
        """Plan.

        Args:
            caching: which maps are kept.
            truncations: by tensor; tensors without one, or that are not kept, pass on every pixel that was computed.
            shares: by tensor, where another machine may compute a part of it; all maps must be kept then.
        """
        assert shares is None or caching == EVERYTHING
        supplies = self._supplies(caching)
        planning = _Planning(self._layout, self._spreads, self._all_rows, caching, truncations or {}, supplies, shares)
        for operator in self._layout.operators:
            planning.add(operator)
        if shares is not None:
            planning.receive_outputs()
        changed = planning.changed
        return Plan(steps=tuple(planning.steps), input=changed[self._layout.graph.input], changed=changed)

    def _supplies(self, caching: Caching) -> dict[str, tuple[Operator, ...]]:
        """By the output of an operator that is kept: those that it needs anew, in order.

        What is computed completely whenever anything changes need not be asked for again.
        """
        layout = self._layout
        complete: set[str] = set()
        found: dict[str, tuple[Operator, ...]] = {}
        for operator in layout.operators:
            if layout.root(operator.output) in caching.dropped:
                continue
            chain: dict[str, tuple[int, Operator]] = {}
            waiting = list(operator.inputs)
            while waiting:
                for leaf in layout.leaves[waiting.pop()]:
                    if leaf not in chain and leaf not in complete and layout.root(leaf) in caching.dropped:
                        chain[leaf] = self._producers[leaf]
                        waiting += chain[leaf][1].inputs
            found[operator.output] = tuple(producer for _, producer in sorted(chain.values(), key=lambda p: p[0]))
            if caching.dense:
                complete |= set(chain)
            elif isinstance(operator, GlobalMean):  # of what these read some pixels may be read by nobody
                complete.update(leaf for name in operator.inputs for leaf in layout.leaves[name] if leaf in chain)
        return found


class _Planning:
    """One plan as it is made.

    Attributes:
        steps: so far.
        changed: see :class:`Plan`, so far.
    """

    def __init__(
        self,
        layout: Layout,
        spreads: Mapping[str, AccessPattern],
        all_rows: np.ndarray[tuple[int], np.dtype[np.int32]],
        caching: Caching,
        truncations: Mapping[str, Truncation],
        supplies: Mapping[str, tuple[Operator, ...]],
        shares: TensorReplicas | None,
    ) -> None:
        """``supplies``: by operator that is kept, what is to be computed before it."""
        self.steps: list[Step] = []
        self._supplies = supplies
        self._shares = shares
        self._awaited: set[str] = set()  # tensors of which another machine's part has not been received yet
        self._layout = layout
        self._spreads = spreads
        self._all_rows = all_rows
        self._caching = caching
        self._truncations = truncations
        self._grown: dict[tuple[int, Through, bool], ActiveSet] = {}
        self._united: dict[frozenset[int], ActiveSet] = {}
        self._flooded: dict[tuple[int, Size], ActiveSet] = {}
        self._done: dict[str, list[ActiveSet]] = {}  # by tensor that is dropped: what has been computed of it
        self._input = self._new(layout.graph.tensors[layout.graph.input].size)
        self.changed: dict[str, ActiveSet] = {layout.graph.input: self._input}

    def add(self, operator: Operator) -> None:
        """Add what an operator takes."""
        if isinstance(operator, Global):
            self._call(operator)
            return
        active = self._active(operator)
        truncation = self._truncations.get(operator.output)
        if self._shares is not None:
            own = self._new(active.size)
            self.steps.append(LocalRows(share=self._shares[operator.output], grown=active, target=own))
            self._share(operator.output, self._compute(operator, own, truncation), active)
        elif self._is_dropped(operator.output):
            self.changed[operator.output] = active
        else:
            self._supply(operator, active)
            self.changed[operator.output] = self._compute(operator, active, truncation)

    def receive_outputs(self) -> None:
        """Add what is left to do when all is computed: what nothing has read yet."""
        for _, tensor in self._layout.graph.outputs:
            self._changed_of(tensor)

    def _is_dropped(self, leaf: str) -> bool:
        return self._layout.root(leaf) in self._caching.dropped

    def _compute(self, operator: Operator, active: ActiveSet, truncation: Truncation | None = None) -> ActiveSet:
        changed = self._new(active.size) if truncation else active
        self.steps.append(Compute(operator=operator, active=active, changed=changed, truncation=truncation))
        return changed

    def _active(self, operator: Operator) -> ActiveSet:
        """The pixels that depend on a changed pixel of an input."""
        size = self._layout.spec(operator.output).size
        if self._caching.dense:
            return self._flood(self._input, size)
        sets = [self._changed_of(name) for name in operator.inputs]
        if operator.output in self._spreads:
            sets[0] = self._grow(sets[0], self._spreads[operator.output].forward)
        elif isinstance(operator, GlobalMean):
            sets[0] = self._flood(sets[0], (1, 1))
        return self._unite([s if s.size == size else self._flood(s, size) for s in sets])

    def _supply(self, consumer: Operator, rows: ActiveSet) -> None:
        """Compute what an operator reads of maps that are not kept, as far as that has not been done."""
        chain = self._supplies[consumer.output]
        needed: dict[str, list[ActiveSet]] = {producer.output: [] for producer in chain}
        self._need(consumer, rows, needed)
        missing: list[tuple[Operator, ActiveSet]] = []
        for producer in reversed(chain):
            rest = self._missing(producer.output, needed[producer.output])
            if rest is not None:
                self._need(producer, rest, needed)
                missing.append((producer, rest))
        for producer, rest in reversed(missing):
            self._compute(producer, rest)

    def _need(self, operator: Operator, rows: ActiveSet, needed: dict[str, list[ActiveSet]]) -> None:
        """Note what an operator reads of maps that are not kept, in order to compute some rows."""
        for position, name in enumerate(operator.inputs):
            for leaf in self._layout.leaves[name]:
                if leaf not in needed:
                    continue
                if isinstance(operator, GlobalMean) or self._caching.dense:
                    # all of it, whatever changed: nobody will ask for it again
                    needed[leaf].append(self._flood(self._input, self._layout.spec(leaf).size))
                elif position == 0 and operator.output in self._spreads:
                    needed[leaf].append(self._grow(rows, self._spreads[operator.output].back, inwards=True))
                else:
                    needed[leaf].append(rows)

    def _missing(self, leaf: str, needed: Sequence[ActiveSet]) -> ActiveSet | None:
        """What is needed of a map and has not been computed yet; None: nothing."""
        if not needed:
            return None
        wanted, done = self._unite(needed), self._done.setdefault(leaf, [])
        if any(wanted is some for some in done):
            return None
        missing = wanted
        if done:
            missing = self._new(wanted.size)
            self.steps.append(Difference(source=wanted, without=self._unite(done), target=missing))
        done.append(wanted)
        return missing

    def _call(self, operator: Global) -> None:
        is_map = operator.output in self._layout.maps
        changed = self._new(self._layout.spec(operator.output).size if is_map else (1, 1))
        inputs = tuple(self._changed_of(name) for name in operator.inputs)
        share = self._shares[operator.output] if self._shares is not None else None
        self.steps.append(Call(operator=operator, inputs=inputs, changed=changed, share=share))
        if self._shares is None:
            self.changed[operator.output] = changed
        else:
            self._share(operator.output, changed, changed)

    def _share(self, tensor: str, changed: ActiveSet, grown: ActiveSet) -> None:
        """Let the other machine have what it needs of a tensor; what it has of it is received when it is read."""
        assert self._shares is not None
        share, passed = self._shares[tensor], self._new(changed.size)
        self.steps += [Forward(share=share, changed=changed, grown=grown, target=passed), Send(share=share)]
        self._awaited.add(tensor)
        self.changed[tensor] = passed

    def _changed_of(self, name: str) -> ActiveSet:
        leaves = self._layout.leaves[name]
        for leaf in leaves:
            if leaf in self._awaited:
                assert self._shares is not None
                self._awaited.remove(leaf)
                self.steps.append(Receive(share=self._shares[leaf], changed=self.changed[leaf]))
        return self._unite([self.changed[leaf] for leaf in leaves])

    def _grow(self, source: ActiveSet, through: Through, *, inwards: bool = False) -> ActiveSet:
        key = id(source), through, inwards
        if key not in self._grown:
            target = self._new(through.out_size)
            self._grown[key] = target
            self.steps.append(Grow(source=source, target=target, through=through, inwards=inwards))
        return self._grown[key]

    def _unite(self, sources: Sequence[ActiveSet]) -> ActiveSet:
        distinct = list({id(source): source for source in sources}.values())
        key = frozenset(map(id, distinct))
        if len(distinct) == 1:
            return distinct[0]
        if key not in self._united:
            target, united = self._new(distinct[0].size), distinct[0]
            for source in distinct[1:]:
                self.steps.append(Union(first=united, second=source, target=target))
                united = target
            self._united[key] = target
        return self._united[key]

    def _flood(self, source: ActiveSet, size: Size) -> ActiveSet:
        if (id(source), size) not in self._flooded:
            target = self._new(size)
            self._flooded[id(source), size] = target
            self.steps.append(FillIfAny(source=source, target=target))
        return self._flooded[id(source), size]

    def _new(self, size: Size) -> ActiveSet:
        return ActiveSet(size, self._all_rows)
