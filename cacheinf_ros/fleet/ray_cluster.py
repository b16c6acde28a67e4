# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The machines of a Ray cluster, as a gateway sees them; only the modules ``ray_*`` know Ray.

Frames do not go through Ray: gateways and processes have connections of their own, see :mod:`.frame_stream`.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any

from cacheinf_ros.errors import LinkError, shortened
from cacheinf_ros.fleet.machine_choice import FleetRules
from cacheinf_ros.fleet.messages import Asked, Elsewhere, GatewayReport, Orders, Place, Refusal
from cacheinf_ros.fleet.ray_actors import DIRECTOR, NAMESPACE, Director, HostActor
from cacheinf_ros.fleet.ray_library import PATIENCE_S, affinity, cause, ray, start_failure
from cacheinf_ros.fleet.start_error import StartError
from cacheinf_ros.fleet.status import FleetStatus
from cacheinf_ros.pipeline import guarded

if TYPE_CHECKING:  # torch is for the processes that compute
    from cacheinf_ros.fleet.frame_stream import Address
    from cacheinf_ros.fleet.host import HostSetting

_HEAD = "node:__internal_head__"  # a resource that only the head has
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


class RayCluster:
    """Implements :class:`.gateway.Cluster` on Ray."""

    def __init__(self, address: str, rules: FleetRules | None = None) -> None:
        """Join a cluster, or start one.

        Args:
            address: ``ray://HOST:PORT`` of a Ray client server, ``HOST:PORT`` of a head that this machine has joined,
                or ``local``: a cluster of its own on this machine.
            rules: rules of the fleet, used where this gateway is the first to join.

        Raises:
            ConfigError: Ray is not installed.
            LinkError: the cluster does not answer.
        """
        self._ray = ray()
        self._lock = threading.Lock()
        self._actors: dict[str, Any] = {}
        self._own: set[str] = set()
        self._asked: dict[str, Any] = {}  # pending answers of processes
        self._known: dict[str, tuple[Address, bytes]] = {}
        self._metrics: dict[str, Any] = {}
        self._shown: dict[str, float] = {}
        try:
            self._ray.init(address=address, namespace=NAMESPACE, log_to_driver=False, logging_level="warning")
            self._director = self._join(rules or FleetRules())
            self._ask("status")
        except (OSError, RuntimeError, ValueError, self._ray.exceptions.RayError, LinkError) as error:
            self._ray.shutdown()
            raise LinkError(f"fleet {address!r} cannot be joined: {error}") from None

    def admit(self, asked: Asked) -> Place | Elsewhere | Refusal:
        """Implement :meth:`.Cluster.admit`."""
        return self._ask("admit", asked)

    def report(self, report: GatewayReport) -> Orders:
        """Implement :meth:`.Cluster.report`."""
        return self._ask("report", report)

    def lose_host(self, host: str) -> None:
        """Implement :meth:`.Cluster.lose_host`."""
        self._forget(host)
        self._tell("lose_host", host)

    def end_host(self, host: str, failure: str = "") -> None:
        """Implement :meth:`.Cluster.end_host`."""
        if host not in self._own:
            self._forget(host)
        self._tell("end_host", host, failure)

    def leave(self, session: str, gateway: str) -> None:
        """Implement :meth:`.Cluster.leave`."""
        self._ask("leave", session, gateway)

    def drain(self, machine: str, *, is_wanted: bool = True) -> None:
        """Let a machine become empty, or use it again where ``is_wanted`` is False."""
        self._ask("drain", machine, is_wanted)

    def status(self) -> FleetStatus:
        """Return the status of the fleet."""
        return self._ask("status")

    def start(self, place: Place, setting: HostSetting) -> None:
        """Implement :meth:`.Cluster.start`."""
        with self._linked(f"{place.host} cannot be started"):
            actor = self._ray.remote(HostActor).options(
                name=place.host, num_cpus=place.cores, memory=int(place.memory_bytes), max_restarts=0,
                scheduling_strategy=affinity(place.machine),
            )  # fmt: skip
            started = actor.remote(setting)
        with self._lock:
            self._actors[place.host] = started
            self._own.add(place.host)

    def reach(self, host: str) -> tuple[Address, bytes] | None:
        """Implement :meth:`.Cluster.reach`; each call returns what the call before has asked for."""
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
                failure = start_failure(error)
                if failure:  # not forgotten: whoever else waits for it is told so, too
                    raise StartError(shortened(f"{host} could not start: {failure}")) from None
                self._forget_now(host)
                raise LinkError(f"{host} has died: {cause(error)}") from None
            except (OSError, RuntimeError):  # Ray does not answer, which says nothing about the process
                pass
            return self._known.get(host)

    def stop(self, host: str) -> None:
        """Implement :meth:`.Cluster.stop`."""
        with self._lock:
            actor = self._actors.get(host)
        if actor is not None:
            with self._linked(f"{host} cannot be stopped"):
                self._ray.kill(actor)
        self._forget(host)

    def show(self, shown: Mapping[str, float], gateway: str) -> None:
        """Implement :meth:`.Cluster.show` through Ray's Prometheus endpoint."""
        with self._linked("metrics cannot be shown"):
            self._show(shown, gateway)

    def _show(self, shown: Mapping[str, float], gateway: str) -> None:
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
        """Implement :meth:`.Cluster.close`."""
        for host in list(self._own):
            with guarded("a process of the fleet is left to Ray"):
                self.stop(host)
        self._ray.shutdown()

    def _join(self, rules: FleetRules) -> Any:
        head = next(node["NodeID"] for node in self._ray.nodes() if _HEAD in node["Resources"] and node["Alive"])
        made = self._ray.remote(Director).options(
            name=DIRECTOR, get_if_exists=True, lifetime="detached", num_cpus=0, max_restarts=-1,
            scheduling_strategy=affinity(head),
        )  # fmt: skip
        return made.remote(rules)

    def _forget(self, host: str) -> None:
        with self._lock:
            self._forget_now(host)

    def _forget_now(self, host: str) -> None:
        self._known.pop(host, None)
        self._asked.pop(host, None)
        self._own.discard(host)
        self._actors.pop(host, None)

    def _ask(self, request: str, *content: Any) -> Any:
        """Let the director do something, and return its answer."""
        with self._linked("the fleet's ledger does not answer"):
            return self._ray.get(getattr(self._director, request).remote(*content), timeout=PATIENCE_S)

    def _tell(self, request: str, *content: Any) -> None:
        """Let the director do something, without waiting: an actor's calls keep their order."""
        with self._linked("the fleet's ledger cannot be told"):
            getattr(self._director, request).remote(*content)

    @contextmanager
    def _linked(self, problem: str) -> Iterator[None]:
        """Turn what Ray raises into a :class:`LinkError`."""
        try:
            yield
        except (OSError, RuntimeError, ValueError, self._ray.exceptions.RayError) as error:
            raise LinkError(f"{problem}: {cause(error)}") from None
