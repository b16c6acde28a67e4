# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The choice of a session's machine: the one where its frames are predicted to end soonest, or none.

On a machine with m cores, of which sessions keep a share u busy, a frame waits, on average, for about

    W = s u^(sqrt(2 (m + 1)) - 1) / (m (1 - u)),      s: the mean time of a frame (Sakasegawa's formula for M/M/m)

and one in twenty waits longer than 3 W, as waiting times have an exponential tail. A session fits where this wait,
added to each session's own slowest frames, stays within the deadlines of all sessions on the machine.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from cacheinf_ros.fleet.demand import HOST_BYTES, Demand

_TAIL = math.log(20)  # multiple of the mean wait that one frame in twenty exceeds
_SWITCH_SHARE = 0.1  # share of a model's loading time that counts like additional time of a frame


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetRules:
    """Rules for what a fleet may promise.

    Attributes:
        most_busy: largest share of a machine's cores that may be busy.
        margin: share of a deadline that the server's part of a frame may take; the rest is for the link and the robot.
        sessions_per_host: number of sessions that a process computes; more only where a machine was lost.
        standby: whether a model that has sessions on only one machine is also loaded on another one.
        idle_s: time after which a process without sessions ends.
        load_ms: time to start a process with a model, assumed before it is measured.
    """

    most_busy: float = 0.8
    margin: float = 0.8
    sessions_per_host: int = 1
    standby: bool = True
    idle_s: float = 20.0
    load_ms: float = 100.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """A node of the cluster.

    Attributes:
        name: the node's identity in the cluster.
        cores: number of cores that sessions may use.
        memory_bytes: memory that sessions may use.
    """

    name: str
    cores: float
    memory_bytes: float


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineLoad:
    """A machine with its load.

    Attributes:
        demands: the demands of its sessions.
        networks: hashes of the models that are loaded there in processes that have room.
        hosts: number of processes.
    """

    machine: Machine
    demands: Sequence[Demand]
    networks: frozenset[str] = field(default_factory=frozenset)
    hosts: int = 0

    @property
    def busy(self) -> float:
        """The share of the machine's cores that is busy."""
        return sum(demand.cores for demand in self.demands) / self.machine.cores

    def joined_by(self, demand: Demand) -> MachineLoad:
        """Return the load with another session, in a process of its own unless one has room."""
        hosts = self.hosts + (demand.network not in self.networks)
        return MachineLoad(machine=self.machine, demands=(*self.demands, demand), networks=self.networks, hosts=hosts)


def waiting_ms(load: MachineLoad) -> float:
    """Predict the wait for a core that one frame in twenty exceeds; infinite where there is more work than time."""
    cores = sum(demand.cores for demand in load.demands)
    if not cores:
        return 0.0
    busy = cores / load.machine.cores
    if busy >= 1:
        return math.inf
    frames = sum(1 / demand.period_ms for demand in load.demands)
    mean_ms = cores / frames
    servers = max(1.0, load.machine.cores)
    return _TAIL * mean_ms * busy ** (math.sqrt(2 * (servers + 1)) - 1) / (servers * (1 - busy))


def p95_ms(load: MachineLoad, demand: Demand) -> float:
    """Predict the time, in ms, that one in twenty of a session's frames exceeds on a machine."""
    return demand.worst_ms + waiting_ms(load)


def is_hopeless(demand: Demand, rules: FleetRules) -> bool:
    """Tell whether a session's frames take too long even on a machine that does nothing else."""
    return demand.worst_ms > _allowed_ms(demand, rules)


def _allowed_ms(demand: Demand, rules: FleetRules) -> float:
    return rules.margin * demand.deadline_ms


def _too_slow(took_ms: float, demand: Demand, rules: FleetRules) -> str:
    return f"one frame in twenty would take {took_ms:.0f} ms, of {_allowed_ms(demand, rules):.0f}"


def objection(load: MachineLoad, rules: FleetRules) -> str:
    """Return why a machine cannot serve its load; empty: it can.

    The deadlines of sessions whose frames take too long whatever else is there do not count: to end others would not
    help them.
    """
    if load.busy > rules.most_busy:
        return f"its cores would be {100 * load.busy:.0f} % busy, of {100 * rules.most_busy:.0f} %"
    needed = sum(demand.memory_bytes for demand in load.demands) + load.hosts * HOST_BYTES
    if needed > load.machine.memory_bytes:
        return f"{needed / 1e6:.0f} MB would be needed, of {load.machine.memory_bytes / 1e6:.0f}"
    for demand in load.demands:
        took_ms = p95_ms(load, demand)
        if took_ms > _allowed_ms(demand, rules) and not is_hopeless(demand, rules):
            return _too_slow(took_ms, demand, rules)
    return ""


def cost_ms(load: MachineLoad, demand: Demand, rules: FleetRules) -> float:
    """Predict a new session's frame time on a machine, plus a part of the loading time if the model is not loaded."""
    loading_ms = 0.0 if demand.network in load.networks else _SWITCH_SHARE * rules.load_ms
    return p95_ms(load.joined_by(demand), demand) + loading_ms


def best_machine(loads: Sequence[MachineLoad], demand: Demand, rules: FleetRules) -> MachineLoad | str:
    """Return the best machine for a session, or the reason why there is none."""
    if not loads:
        return "no machine is there"
    if is_hopeless(demand, rules):
        return f"{_too_slow(demand.worst_ms, demand, rules)}, on any machine"
    found: list[tuple[float, float, str, MachineLoad]] = []
    objections = []
    for load in loads:
        joined = load.joined_by(demand)
        complaint = objection(joined, rules)
        if complaint:
            objections.append(f"{load.machine.name[:8]}: {complaint}")
        else:
            found.append((round(cost_ms(load, demand, rules), 3), joined.busy, load.machine.name, load))
    return min(found)[-1] if found else "; ".join(objections[:3])


def busy_share(loads: Sequence[MachineLoad], rules: FleetRules) -> float:
    """Return the share of the machines' available capacity that is promised, 0 to 1; 1 without machines."""
    cores = rules.most_busy * sum(load.machine.cores for load in loads)
    if not cores:
        return 1.0
    return min(1.0, sum(demand.cores for load in loads for demand in load.demands) / cores)
