# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The state of a fleet as the ledger knows it: machines, the processes on them, sessions, and gateways."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from cacheinf_ros.fleet.demand import Demand
from cacheinf_ros.fleet.machine_choice import FleetRules, Machine, MachineLoad
from cacheinf_ros.fleet.messages import Orders

START_S = 120.0
"""The time after which a process that was ordered but never started is forgotten."""


@dataclass(slots=True, kw_only=True)
class HostEntry:
    """A process that computes sessions.

    Attributes:
        idle_s: time since which the process has had no session.
        is_seen, is_ready: whether its gateway has reported it, and has reported that it computes.
    """

    machine: str
    network: str
    gateway: str
    since_s: float
    idle_s: float
    is_seen: bool = False
    is_ready: bool = False


@dataclass(slots=True, kw_only=True)
class SessionEntry:
    """A session; ``host`` is where it is, ``target`` where it is moving to, each empty if nowhere."""

    gateway: str
    demand: Demand
    since_s: float
    host: str = ""
    target: str = ""
    ordered_s: float = 0.0
    shed: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class StartFailure:
    """The reason for which a process could not start, and the time until which no other one is tried."""

    reason: str
    until_s: float


@dataclass(slots=True, kw_only=True)
class GatewayEntry:
    """A gateway, with the time of its last message and its counts."""

    heard_s: float
    counts: Mapping[str, float] = field(default_factory=dict)


class FleetState:
    """All that the ledger knows about a fleet.

    Attributes:
        machines: the machines that are alive, by name.
        draining: names of the machines that are to become empty.
        doubted: machines on which a process has died, with the time until which they are avoided.
        failures: the processes that could not start lately, by machine and network.
        hosts, sessions, gateways: the processes, sessions and gateways, by name.
        orders: orders for each gateway, kept until its next report.
        counts: numbers of admissions, refusals, moves, losses and shed sessions so far.
    """

    def __init__(self, rules: FleetRules) -> None:
        self.rules = rules
        self.machines: dict[str, Machine] = {}
        self.draining: set[str] = set()
        self.doubted: dict[str, float] = {}
        self.failures: dict[tuple[str, str], StartFailure] = {}
        self.hosts: dict[str, HostEntry] = {}
        self.sessions: dict[str, SessionEntry] = {}
        self.gateways: dict[str, GatewayEntry] = {}
        self.counts = dict.fromkeys(("admitted", "refused", "moved", "lost", "shed"), 0)
        self.orders: dict[str, Orders] = {}

    @property
    def loads(self) -> list[MachineLoad]:
        """The load of machines that take sessions; doubted ones are included only if there are no others."""
        taking = [load for load in self.all_loads if load.machine.name not in self.draining]
        return [load for load in taking if load.machine.name not in self.doubted] or taking

    def loads_for(self, network: str) -> list[MachineLoad]:
        """Return the load of machines that take sessions of a model: where it runs, or has not failed to start."""
        return [
            load for load in self.loads if network in load.networks or (load.machine.name, network) not in self.failures
        ]

    @property
    def all_loads(self) -> list[MachineLoad]:
        """The load of all machines, by name."""
        counts = self.counted
        demands: dict[str, list[Demand]] = {name: [] for name in sorted(self.machines)}
        free: dict[str, set[str]] = {name: set() for name in self.machines}
        hosts: Counter[str] = Counter()
        for session in self.sessions.values():
            machine = self.machine_of(session)
            if machine and not session.shed:
                demands[machine].append(session.demand)
        for name, host in self.hosts.items():
            hosts[host.machine] += 1
            if counts[name] < self.rules.sessions_per_host:
                free[host.machine].add(host.network)
        return [
            MachineLoad(
                machine=self.machines[name], demands=tuple(there), networks=frozenset(free[name]), hosts=hosts[name]
            )
            for name, there in demands.items()
        ]

    @property
    def counted(self) -> Counter[str]:
        """The number of sessions that each process has or is to get."""
        return Counter(host for each in self.sessions.values() for host in {each.host, each.target} if host)

    def machine_of(self, session: SessionEntry) -> str:
        """Return the machine where a session is or is moving to; empty: nowhere."""
        host = self.hosts.get(session.target or session.host)
        return host.machine if host is not None else ""
