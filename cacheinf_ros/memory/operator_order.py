# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Find the order of operators in which least memory is alive at once (Pisarchyk and Lee, 2020, section 7.1).

The search goes layer by layer: of all orders in which the same operators have run, only the one with the smallest
breadth so far is continued. While no such set of operators has to be given up, the result is the best order there is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

_BEAM = 200  # sets of operators that are continued after each layer


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorUse:
    """The results and tensors that an operator needs.

    Attributes:
        after: indices of the operators whose results it reads.
        tensors: indices of the tensors that it reads or writes, of those that live within a frame.
    """

    after: frozenset[int]
    tensors: frozenset[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorOrder:
    """An order of execution.

    Attributes:
        order: indices of operators, each after those that it needs.
        breadth: the most bytes that are alive while one operator runs.
        is_best: whether no order has a smaller breadth.
    """

    order: tuple[int, ...]
    breadth: int
    is_best: bool


@dataclass(frozen=True, slots=True)
class _State:
    """A partial order: the operators that have run and that could be next, as bits, and the breadth so far.

    ``last`` is the operator that ran last, ``before`` the state before it.
    """

    done: int
    ready: int
    breadth: int
    alive: int
    last: int
    before: _State | None


def smallest_order(operators: Sequence[OperatorUse], sizes: Sequence[int], beam: int = _BEAM) -> OperatorOrder:
    """Search for the order of the smallest breadth.

    Args:
        sizes: bytes of each tensor.
        beam: how many states are continued after each operator, those of the smallest breadth.
    """
    problem = _Problem.of(operators, sizes)
    states, is_best = [problem.start()], True
    for _ in operators:
        found: dict[int, _State] = {}
        for state in states:
            for index in _bits(state.ready):
                following = problem.run(state, index)
                known = found.get(following.done)
                if known is None or following.breadth < known.breadth:
                    found[following.done] = following
        states = sorted(found.values(), key=lambda state: (state.breadth, state.alive, state.done))
        is_best &= len(states) <= beam
        states = states[:beam]
    return OperatorOrder(order=_path(states[0]), breadth=states[0].breadth, is_best=is_best)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Problem:
    """For each operator what it needs and who needs it, for each tensor who uses it; most of these sets are bits."""

    operators: Sequence[OperatorUse]
    sizes: Sequence[int]
    after: Sequence[int]
    followers: Sequence[Sequence[int]]
    users: Sequence[int]

    @classmethod
    def of(cls, operators: Sequence[OperatorUse], sizes: Sequence[int]) -> _Problem:
        after = [sum(1 << i for i in operator.after) for operator in operators]
        followers = [[j for j, other in enumerate(operators) if i in other.after] for i in range(len(operators))]
        users = [sum(1 << i for i, o in enumerate(operators) if tensor in o.tensors) for tensor in range(len(sizes))]
        return cls(operators=operators, sizes=sizes, after=after, followers=followers, users=users)

    def start(self) -> _State:
        ready = sum(1 << index for index, needed in enumerate(self.after) if not needed)
        return _State(done=0, ready=ready, breadth=0, alive=0, last=-1, before=None)

    def run(self, state: _State, index: int) -> _State:
        """Return the state after one more operator."""
        tensors, users = self.operators[index].tensors, self.users
        done = state.done | 1 << index
        ready = state.ready & ~(1 << index)
        for follower in self.followers[index]:
            if not self.after[follower] & ~done:
                ready |= 1 << follower
        alive = state.alive + sum(self.sizes[t] for t in tensors if not users[t] & state.done)
        dead = sum(self.sizes[t] for t in tensors if not users[t] & ~done)
        return _State(done, ready, max(state.breadth, alive), alive - dead, index, state)


def _bits(bits: int) -> Iterator[int]:
    while bits:
        lowest = bits & -bits
        yield lowest.bit_length() - 1
        bits ^= lowest


def _path(state: _State) -> tuple[int, ...]:
    order: list[int] = []
    while state.before is not None:
        order.append(state.last)
        state = state.before
    return tuple(reversed(order))
