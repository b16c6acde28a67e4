# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Simulates how the scheduler serves a trace of requests, without a robot: MCDNN's section 6.2.

Each request takes what the catalog predicts. What is loaded in the background is there before the next request.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

from benchmarks.catalog.requests import Trace
from cacheinf_ros.catalog.scheduling.decision import Decision, Load, Why
from cacheinf_ros.catalog.variant import Place


class Serving(Protocol):
    """What a simulation asks of a scheduler; see :class:`cacheinf_ros.catalog.scheduling.scheduler.Scheduler`."""

    def choose(self, model: str, now_s: float, *, connected: bool = True) -> Decision:
        """Decide how a request is served."""

    def update(self, model: str, now_s: float, *, connected: bool = True) -> Load | None:
        """Propose what to load in place of what a model has in the cache."""

    def apply(self, load: Load, now_s: float) -> None:
        """Put a variant into the cache."""

    def spend(self, energy_j: float, money: float) -> None:
        """Subtract the joules and dollars that were taken."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A request of the trace, and how it was served.

    Attributes:
        time_s: seconds since the trace began.
        decision: the scheduler's choice for the request.
        update: what was loaded in the background afterwards; None: nothing.
        energy_j, money: what the request and the update took together.
    """

    time_s: float
    decision: Decision
    update: Load | None
    energy_j: float
    money: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The totals of a simulated trace.

    Attributes:
        requests, served: number of requests, and how many of them were not refused.
        accuracy: mean over the requests that were served; 0 where none was.
        energy_j, money: what all requests and loads took.
        loads: number of variants that were loaded.
        places: number of served requests by the place that served them.
        refused: number of refused requests by reason.
    """

    requests: int
    served: int
    accuracy: float
    energy_j: float
    money: float
    loads: int
    places: Counter[Place]
    refused: Counter[Why]

    @property
    def energy_per_request_j(self) -> float:
        """The energy (J) per served request, loading included; 0 where none was served."""
        return self.energy_j / self.served if self.served else 0.0

    @property
    def accuracy_of_all(self) -> float:
        """The mean accuracy over all requests, where a refused one counts as wrong."""
        return self.accuracy * self.served / self.requests if self.requests else 0.0


def always(time_s: float) -> bool:
    """Return True: the cloud is reached at any time."""
    return True


def never(time_s: float) -> bool:
    """Return False: the cloud is reached at no time."""
    return False


def steps(scheduler: Serving, trace: Trace, connected: Callable[[float], bool] = always) -> Iterator[Step]:
    """Serve one request after another; ``connected`` tells whether the cloud is reached at a time (s) of the trace."""
    for time_s, model in trace:
        is_connected = connected(time_s)
        decision = scheduler.choose(model, time_s, connected=is_connected)
        energy_j, money = decision.predicted
        scheduler.spend(energy_j, money)
        update = None
        if decision.why is Why.IN_CACHE:
            update = scheduler.update(model, time_s, connected=is_connected)
        if update is not None:
            scheduler.apply(update, time_s)
            scheduler.spend(update.option.cost.load_energy_j, update.option.cost.load_money)
            energy_j, money = energy_j + update.option.cost.load_energy_j, money + update.option.cost.load_money
        yield Step(time_s=time_s, decision=decision, update=update, energy_j=energy_j, money=money)


def simulate(scheduler: Serving, trace: Trace, connected: Callable[[float], bool] = always) -> Outcome:
    """Serve all requests of a trace, and return the totals."""
    served = loads = 0
    accuracy = energy_j = money = 0.0
    places: Counter[Place] = Counter()
    refused: Counter[Why] = Counter()
    for step in steps(scheduler, trace, connected):
        option = step.decision.option
        if option is None:
            refused[step.decision.why] += 1
        else:
            served += 1
            accuracy += option.variant.accuracy
            places[option.place] += 1
        loads += (step.decision.load is not None) + (step.update is not None)
        energy_j, money = energy_j + step.energy_j, money + step.money
    return Outcome(
        requests=len(trace), served=served, accuracy=accuracy / served if served else 0.0, energy_j=energy_j,
        money=money, loads=loads, places=places, refused=refused,
    )  # fmt: skip
