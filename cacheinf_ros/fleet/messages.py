# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The messages between gateways and the ledger of a fleet."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from cacheinf_ros.fleet.demand import Demand


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A gateway's request for a place, for a robot that is new or has lost its place.

    Attributes:
        predicted: the predicted demand; None: nobody has computed the model yet.
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
    """The process that computes a session.

    Attributes:
        host: name of the process.
        machine: the machine on which it runs.
        gateway: the gateway that has started the process, or is to start it.
        is_new: whether whoever asked has to start the process.
        is_ready: whether the process computes already; else it is starting, or about to be started.
        memory_bytes, cores: resources that the cluster is to reserve for the process.
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
    """The answer that redirects a robot to another gateway, which is its own."""

    gateway: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """The answer that there is no place, with the reason."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HostReport:
    """A process that a gateway has started or is starting."""

    machine: str
    network: str
    is_ready: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayReport:
    """A gateway's regular report about itself.

    Attributes:
        hosts: the gateway's processes, by name.
        sessions: host and demand of each session, by name.
        counts: counts of frames and other events, for those who monitor the fleet.
        draining: machines that are to become empty, as the ledger has said; it may have lost that.
    """

    gateway: str
    hosts: Mapping[str, HostReport] = field(default_factory=dict)
    sessions: Mapping[str, tuple[str, Demand | None]] = field(default_factory=dict)
    counts: Mapping[str, float] = field(default_factory=dict)
    draining: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Orders:
    """Orders to a gateway.

    Attributes:
        start: processes to start, with the network that each is to load.
        stop: processes to stop.
        move: sessions to move, each with its new place.
        shed: sessions to end, each with the reason.
        busy: share of the fleet's available capacity that is promised, 0 to 1; prices depend on it.
        complaint: an error at the ledger, for the gateway's operator; empty: none.
        draining: machines that are to become empty, for the gateway's next reports.
    """

    start: tuple[tuple[Place, str], ...] = ()
    stop: tuple[str, ...] = ()
    move: tuple[tuple[str, Place], ...] = ()
    shed: tuple[tuple[str, str], ...] = ()
    busy: float = 0.0
    complaint: str = ""
    draining: frozenset[str] = frozenset()
