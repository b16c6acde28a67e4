# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The machines of a Ray cluster: the only module that knows Ray, which is imported when the first cluster is joined.

On it run one actor that keeps the ledger, at the head, and an actor for each process that computes. Frames do not go
through Ray: gateways and processes have connections of their own, see :mod:`.stream`.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

from cacheinf_ros.errors import CacheinfError, ConfigError, LinkError
from cacheinf_ros.fleet.ledger import FleetLedger
from cacheinf_ros.fleet.machine_choice import FleetRules, Machine
from cacheinf_ros.fleet.messages import Asked, Elsewhere, GatewayReport, Orders, Place, Refusal
from cacheinf_ros.fleet.status import FleetStatus, status_of
from cacheinf_ros.fleet.upkeep import keep_up

if TYPE_CHECKING:  # torch is for the processes that compute
    from cacheinf_ros.fleet.frame_stream import Address
    from cacheinf_ros.fleet.host import HostSetting

_NAMESPACE = "cacheinf"
_DIRECTOR = "cacheinf_director"
_ENVIRONMENT = {  # of nodes that are started here
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_worker_niceness": "0",  # by default 15: processes that compute frames would come after all others
}
_HEAD = "node:__internal_head__"  # a resource that only the head has
_PATIENCE_S = 10.0
_LOOK_S = 0.25
_OWN_MEMORY, _OWN_STORE = 8 * 2**30, 80 * 2**20  # bytes of a node on this machine
_GAUGES = {
    "sessions": "robots' sessions that a gateway has",
    "queue": "frames that have begun and not ended",
    "frame_p95_ms": "of the last frames of a gateway, from the robot's word to the process' last, ms",
}
_COUNTERS = {
    "frames": "frames that were begun",
    "busy_ms": "that processes computed frames, ms",
    "moves": "sessions that have moved without losing a frame",
    "losses": "sessions whose process was lost",
    "refusals": "sessions that were refused a place",
}


class Director:
    """Keeps the ledger; see :class:`.ledger.FleetLedger`. An actor at the head of the cluster."""

    def __init__(self, rules: FleetRules) -> None:
        self._lock = threading.Lock()
        self._ledger = FleetLedger(rules)
        self._look()
        threading.Thread(target=self._look_on, name="look", daemon=True).start()

    def admit(self, asked: Asked) -> Place | Elsewhere | Refusal:
        """As :meth:`.FleetLedger.admit`."""
        with self._lock:
            return self._ledger.admit(asked, time.monotonic())

    def report(self, report: GatewayReport) -> Orders:
        """As :meth:`.FleetLedger.report`."""
        with self._lock:
            return self._ledger.report(report, time.monotonic())

    def lose_host(self, host: str) -> None:
        """As :meth:`.FleetLedger.lose_host`."""
        with self._lock:
            self._ledger.lose_host(host)

    def leave(self, session: str) -> None:
        """As :meth:`.FleetLedger.leave`."""
        with self._lock:
            self._ledger.leave(session)

    def drain(self, machine: str, is_wanted: bool) -> None:
        """As :meth:`.FleetLedger.drain`, or :meth:`.FleetLedger.undrain`."""
        with self._lock:
            (self._ledger.drain if is_wanted else self._ledger.undrain)(machine)

    def status(self) -> FleetStatus:
        """What there is."""
        with self._lock:
            return status_of(self._ledger, time.monotonic())

    def _look_on(self) -> None:
        """Ray may take its time to say which nodes live, when one has just died: nobody waits for that."""
        while True:
            time.sleep(_LOOK_S)
            self._look()

    def _look(self) -> None:
        machines = _machines(_ray())
        with self._lock:
            self._ledger.see(machines)
            keep_up(self._ledger, time.monotonic())


class HostActor:
    """A :class:`.host.SessionHost` on a machine of the cluster."""

    def __init__(self, setting: HostSetting) -> None:
        from cacheinf_ros.fleet.host import SessionHost

        self._host = SessionHost(setting, _ray().util.get_node_ip_address())

    def where(self) -> tuple[Address, bytes]:
        """Where it listens, and its key."""
        return self._host.address, self._host.key


class RayCluster:
    """See :class:`.gateway.Cluster`."""

    def __init__(self, address: str, rules: FleetRules | None = None) -> None:
        """Join a cluster, or start one.

        Args:
            address: ``ray://HOST:PORT`` of a Ray client server, ``HOST:PORT`` of a head that this machine has joined,
                or ``local``: a cluster of its own on this machine.
            rules: where this is the first to join.

        Raises:
            ConfigError: Ray is not installed.
            LinkError: nobody answers.
        """
        self._ray = _ray()
        self._lock = threading.Lock()
        self._actors: dict[str, Any] = {}
        self._own: set[str] = set()
        self._asked: dict[str, Any] = {}  # what processes will answer
        self._known: dict[str, tuple[Address, bytes]] = {}
        self._metrics: dict[str, Any] = {}
        self._shown: dict[str, float] = {}
        try:
            self._ray.init(address=address, namespace=_NAMESPACE, log_to_driver=False, logging_level="warning")
            self._director = self._join(rules or FleetRules())
            self._get(self._director.status.remote())
        except (OSError, RuntimeError, ValueError, self._ray.exceptions.RayError) as error:
            self._ray.shutdown()
            raise LinkError(f"fleet {address!r} cannot be joined: {error}") from None

    def admit(self, asked: Asked) -> Place | Elsewhere | Refusal:
        """As :meth:`.Cluster.admit`."""
        return self._get(self._director.admit.remote(asked))

    def report(self, report: GatewayReport) -> Orders:
        """As :meth:`.Cluster.report`."""
        return self._get(self._director.report.remote(report))

    def lose_host(self, host: str) -> None:
        """As :meth:`.Cluster.lose_host`."""
        self._forget(host)
        self._director.lose_host.remote(host)  # before whatever is asked next

    def leave(self, session: str) -> None:
        """As :meth:`.Cluster.leave`."""
        self._get(self._director.leave.remote(session))

    def drain(self, machine: str, *, is_wanted: bool = True) -> None:
        """Let a machine become empty, or use it again."""
        self._get(self._director.drain.remote(machine, is_wanted))

    def status(self) -> FleetStatus:
        """What there is."""
        return self._get(self._director.status.remote())

    def start(self, place: Place, setting: HostSetting) -> None:
        """As :meth:`.Cluster.start`."""
        affinity = self._affinity(place.machine)
        actor = self._ray.remote(HostActor).options(
            name=place.host, num_cpus=place.cores, memory=int(place.memory_bytes), max_restarts=0,
            scheduling_strategy=affinity,
        )  # fmt: skip
        with self._lock:
            self._actors[place.host] = actor.remote(setting)
            self._own.add(place.host)

    def reach(self, host: str) -> tuple[Address, bytes] | None:
        """As :meth:`.Cluster.reach`; each call finds out what the one before has asked."""
        with self._lock:
            try:
                if host not in self._actors:
                    self._actors[host] = self._ray.get_actor(host)
                asked = self._asked.pop(host, None) or self._actors[host].where.remote()
                is_answered = bool(self._ray.wait([asked], timeout=0)[0])
                if is_answered:
                    self._known[host] = self._ray.get(asked)
                else:
                    self._asked[host] = asked
            except ValueError:
                raise LinkError(f"{host} is gone") from None
            except self._ray.exceptions.RayError as error:
                self._forget_now(host)
                raise LinkError(f"{host} has died: {_cause(error)}") from None
            return self._known.get(host)

    def stop(self, host: str) -> None:
        """As :meth:`.Cluster.stop`."""
        actor = self._forget(host)
        if actor is not None:
            self._ray.kill(actor)

    def show(self, shown: Mapping[str, float], gateway: str) -> None:
        """As :meth:`.Cluster.show`: through Ray's Prometheus endpoint."""
        if not self._metrics:
            made = import_module("ray.util.metrics")
            self._metrics = {
                **{name: made.Gauge(f"cacheinf_{name}", text, ("gateway",)) for name, text in _GAUGES.items()},
                **{
                    name: made.Counter(f"cacheinf_{name}_total", text, ("gateway",)) for name, text in _COUNTERS.items()
                },
            }
        for name, metric in self._metrics.items():
            value = shown.get(name, 0.0)
            if name in _GAUGES:
                metric.set(value, {"gateway": gateway})
            elif value > self._shown.get(name, 0.0):
                metric.inc(value - self._shown.get(name, 0.0), {"gateway": gateway})
                self._shown[name] = value

    def close(self) -> None:
        """As :meth:`.Cluster.close`."""
        for host in list(self._own):
            self.stop(host)
        self._ray.shutdown()

    def _join(self, rules: FleetRules) -> Any:
        head = next(node["NodeID"] for node in self._ray.nodes() if _HEAD in node["Resources"] and node["Alive"])
        made = self._ray.remote(Director).options(
            name=_DIRECTOR, get_if_exists=True, lifetime="detached", num_cpus=0, max_restarts=-1,
            scheduling_strategy=self._affinity(head),
        )  # fmt: skip
        return made.remote(rules)

    def _affinity(self, node: str) -> Any:
        strategies = import_module("ray.util.scheduling_strategies")
        return strategies.NodeAffinitySchedulingStrategy(node_id=node, soft=False)

    def _forget(self, host: str) -> Any:
        with self._lock:
            return self._forget_now(host)

    def _forget_now(self, host: str) -> Any:
        self._known.pop(host, None)
        self._asked.pop(host, None)
        self._own.discard(host)
        return self._actors.pop(host, None)

    def _get(self, asked: Any) -> Any:
        try:
            return self._ray.get(asked, timeout=_PATIENCE_S)
        except (self._ray.exceptions.RayError, ConnectionError) as error:
            raise LinkError(f"the fleet's ledger does not answer: {_cause(error)}") from None


class OwnMachines:
    """A cluster on this machine alone, whose nodes can be killed: for demonstrations and tests.

    Attributes:
        address: of its head, for :class:`RayCluster`.
        names: of its nodes that live, the head first.
    """

    def __init__(self, nodes: int, cores: float) -> None:
        """Start it; ``cores``: that each node claims to have."""
        _ray()
        made = import_module("ray.cluster_utils")
        self._cores = cores
        self._cluster = made.Cluster(initialize_head=True, head_node_args={**self._shape, "include_dashboard": False})
        self._nodes = {self._cluster.head_node.node_id: self._cluster.head_node}
        self.address: str = self._cluster.address
        for _ in range(nodes - 1):
            self.add()

    @property
    def names(self) -> list[str]:
        """See :class:`OwnMachines`."""
        return list(self._nodes)

    def add(self) -> str:
        """Another node; its name."""
        node = self._cluster.add_node(**self._shape)
        self._nodes[node.node_id] = node
        return str(node.node_id)

    def kill(self, name: str) -> None:
        """End a node and all its processes, as if its machine had lost power."""
        self._cluster.remove_node(self._nodes.pop(name), allow_graceful=False)

    def close(self) -> None:
        """End all nodes."""
        self._cluster.shutdown()

    @property
    def _shape(self) -> dict[str, float]:
        return {"num_cpus": self._cores, "memory": _OWN_MEMORY, "object_store_memory": _OWN_STORE}


def _ray() -> Any:
    """Ray itself; :class:`ConfigError` where it is not installed."""
    for name, value in _ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    try:
        return import_module("ray")
    except ImportError:
        raise ConfigError("fleet: needs Ray, which is not installed: pip install 'cacheinf_ros[fleet]'") from None


def _machines(ray: Any) -> list[Machine]:
    """Those that are alive and have processors for sessions."""
    return [
        Machine(name=node["NodeID"], cores=node["Resources"]["CPU"], memory_bytes=node["Resources"].get("memory", 0.0))
        for node in ray.nodes()
        if node["Alive"] and node["Resources"].get("CPU", 0.0) > 0
    ]


def _cause(error: Exception) -> str:
    """An error in one line: what an actor raised rather than its traceback."""
    cause = getattr(error, "cause", None) or error.__cause__
    text = str(cause) if isinstance(cause, CacheinfError) else str(error)
    return text.strip().splitlines()[0] if text.strip() else type(error).__name__
