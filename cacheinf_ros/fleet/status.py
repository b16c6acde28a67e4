# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The status of a fleet, for people who monitor it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from cacheinf_ros.fleet.ledger import FleetLedger
from cacheinf_ros.fleet.machine_choice import MachineLoad, p95_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineStatus:
    """The status of a machine.

    Attributes:
        busy: predicted share of the machine's cores that is busy.
        p95_ms: predicted 95th percentile of the frame time, of the slowest session; 0: there are no sessions.
        hosts, ready: number of processes, and of those that compute already.
    """

    name: str
    cores: float
    sessions: int
    hosts: int
    ready: int
    busy: float
    p95_ms: float
    is_draining: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionStatus:
    """The status of a session; ``machine`` is empty where it waits for a place."""

    name: str
    gateway: str
    machine: str
    network: str
    mean_ms: float
    period_ms: float
    priority: int
    is_moving: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayStatus:
    """The status of a gateway; ``silent_s`` is the time since its last report."""

    name: str
    sessions: int
    networks: tuple[str, ...]
    silent_s: float
    counts: Mapping[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetStatus:
    """The status of a fleet at one moment; ``counts`` are admissions, refusals, moves, losses and shed sessions."""

    machines: tuple[MachineStatus, ...]
    gateways: tuple[GatewayStatus, ...]
    sessions: tuple[SessionStatus, ...]
    counts: Mapping[str, int]


def status_of(ledger: FleetLedger, now_s: float) -> FleetStatus:
    """Return the status of the fleet as its ledger knows it."""
    return FleetStatus(
        machines=tuple(_machine(ledger, load) for load in ledger.state.all_loads),
        gateways=tuple(_gateway(ledger, name, now_s) for name in sorted(ledger.state.gateways)),
        sessions=tuple(_session(ledger, name) for name in sorted(ledger.state.sessions)),
        counts=dict(ledger.state.counts),
    )


def _machine(ledger: FleetLedger, load: MachineLoad) -> MachineStatus:
    name = load.machine.name
    return MachineStatus(
        name=name,
        cores=load.machine.cores,
        sessions=len(load.demands),
        hosts=load.hosts,
        ready=sum(host.machine == name and host.is_ready for host in ledger.state.hosts.values()),
        busy=load.busy,
        p95_ms=max((p95_ms(load, demand) for demand in load.demands), default=0.0),
        is_draining=name in ledger.state.draining,
    )


def _gateway(ledger: FleetLedger, name: str, now_s: float) -> GatewayStatus:
    entry = ledger.state.gateways[name]
    own = [each for each in ledger.state.sessions.values() if each.gateway == name]
    return GatewayStatus(
        name=name,
        sessions=len(own),
        networks=tuple(sorted({each.demand.network for each in own})),
        silent_s=now_s - entry.heard_s,
        counts=dict(entry.counts),
    )


def _session(ledger: FleetLedger, name: str) -> SessionStatus:
    entry = ledger.state.sessions[name]
    host = ledger.state.hosts.get(entry.host)
    return SessionStatus(
        name=name,
        gateway=entry.gateway,
        machine=host.machine if host else "",
        network=entry.demand.network,
        mean_ms=entry.demand.mean_ms,
        period_ms=entry.demand.period_ms,
        priority=entry.demand.priority,
        is_moving=bool(entry.target),
    )
