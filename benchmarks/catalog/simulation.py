# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""A trace of requests served by the scheduler, without a robot: MCDNN's section 6.2.

What a request takes is what the catalog predicts. What is loaded in the background is there before the next request.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from benchmarks.catalog.requests import Trace
from cacheinf_ros.catalog.scheduling.decision import Decision, Load, Why
from cacheinf_ros.catalog.scheduling.scheduler import Scheduler
from cacheinf_ros.catalog.variant import Place


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A request of the trace.

    Attributes:
        time_s: since the trace began.
        decision: how it was served.
        update: loaded in the background after it; None: nothing.
        energy_j, money: that both took.
    """

    time_s: float
    decision: Decision
    update: Load | None
    energy_j: float
    money: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of a trace.

    Attributes:
        requests, served: how many there were, and how many of them were not refused.
        accuracy: mean over those that were served; 0 where none was.
        energy_j, money: taken in all.
        loads: variants that were loaded.
        places: of the requests that were served.
        refused: requests, by reason.
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
        """What a request took that was served, loading included; 0 where none was."""
        return self.energy_j / self.served if self.served else 0.0

    @property
    def accuracy_of_all(self) -> float:
        """Mean over all requests, where a refused one is wrong."""
        return self.accuracy * self.served / self.requests if self.requests else 0.0


def always(time_s: float) -> bool:
    """Connected to the cloud at any time."""
    return True


def never(time_s: float) -> bool:
    """Connected to the cloud at no time."""
    return False


def steps(scheduler: Scheduler, trace: Trace, connected: Callable[[float], bool] = always) -> Iterator[Step]:
    """Serve one request after another; ``connected``: whether the cloud is reached at a time of the trace."""
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


def simulate(scheduler: Scheduler, trace: Trace, connected: Callable[[float], bool] = always) -> Outcome:
    """Serve all requests of a trace, and sum up."""
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
