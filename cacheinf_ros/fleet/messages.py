# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""What gateways ask the ledger of a fleet, and what it answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from cacheinf_ros.fleet.demand import Demand


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A robot has greeted a gateway, or has lost its place.

    Attributes:
        predicted: None: nobody has computed the model yet.
    """

    session: str
    gateway: str
    network: str
    deadline_ms: float
    memory_bytes: float
    priority: int = 0
    predicted: Demand | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a session is computed.

    Attributes:
        host: name of the process.
        machine: on which it runs.
        gateway: that has started it, or is to start it.
        is_new: whether it is to be started by whoever asked.
        is_ready: whether it computes already; else it starts, or is about to be started.
        memory_bytes, cores: that the cluster is to set aside for it.
    """

    host: str
    machine: str
    gateway: str
    is_new: bool = False
    is_ready: bool = False
    memory_bytes: float = 0.0
    cores: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Elsewhere:
    """The robot's own gateway is another one."""

    gateway: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """There is no place, because."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HostReport:
    """A process that a gateway has started, or is starting."""

    machine: str
    network: str
    is_ready: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayReport:
    """What a gateway says of itself every moment.

    Attributes:
        hosts: its processes, by name.
        sessions: host and demand of its sessions, by name.
        counts: of frames and the like, for whoever looks at the fleet.
    """

    gateway: str
    hosts: Mapping[str, HostReport] = field(default_factory=dict)
    sessions: Mapping[str, tuple[str, Demand | None]] = field(default_factory=dict)
    counts: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Orders:
    """What a gateway is to do.

    Attributes:
        start: processes, with the network that each is to load.
        stop: processes.
        move: sessions, to where.
        shed: sessions, why.
        busy: how much of what the fleet may promise is promised, 0 to 1: what places cost goes by it.
        complaint: what goes wrong at the ledger, for the gateway's operator; empty: nothing.
    """

    start: tuple[tuple[Place, str], ...] = ()
    stop: tuple[str, ...] = ()
    move: tuple[tuple[str, Place], ...] = ()
    shed: tuple[tuple[str, str], ...] = ()
    busy: float = 0.0
    complaint: str = ""
