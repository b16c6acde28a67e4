# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""A gateway: robots connect to it, a fleet computes for them, and the fleet's ledger gives it orders."""

from __future__ import annotations

import secrets
import threading
import time
import traceback
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol

import numpy as np

from cacheinf_ros.catalog.serving import SplitModels
from cacheinf_ros.errors import CacheinfError, LinkError
from cacheinf_ros.fleet.demand import UNKNOWN_PERIOD_MS, Demand
from cacheinf_ros.fleet.fleet_state import START_S
from cacheinf_ros.fleet.frame_stream import Address, Listening, PacketStream, connect
from cacheinf_ros.fleet.host import HostSetting
from cacheinf_ros.fleet.messages import Asked, Elsewhere, GatewayReport, HostReport, Orders, Place, Refusal
from cacheinf_ros.fleet.model_demand import ModelDemand
from cacheinf_ros.fleet.relay import RelaySession
from cacheinf_ros.fleet.start_error import StartError
from cacheinf_ros.offload import Identity
from cacheinf_ros.offload.protocol.greeting import Hello, Welcome
from cacheinf_ros.offload.protocol.packets import Send

_REPORT_S = 0.5
_ORDERED_S = 3.0
_READY_POLL_S = 0.02

MakeSetting = Callable[[Identity], HostSetting]


class Cluster(Protocol):
    """The machines and the ledger: :class:`.ray_cluster.RayCluster`, or local processes in tests.

    A method that cannot reach the cluster, or cannot do its work, raises :class:`LinkError`.
    """

    def admit(self, asked: Asked) -> Place | Elsewhere | Refusal:
        """Call :meth:`.FleetLedger.admit`."""
        ...

    def report(self, report: GatewayReport) -> Orders:
        """Call :meth:`.FleetLedger.report`."""
        ...

    def lose_host(self, host: str) -> None:
        """Call :meth:`.FleetLedger.host_died`."""
        ...

    def end_host(self, host: str, failure: str = "") -> None:
        """Call :meth:`.FleetLedger.end_host`."""
        ...

    def leave(self, session: str, gateway: str) -> None:
        """Call :meth:`.FleetLedger.leave`."""
        ...

    def start(self, place: Place, setting: HostSetting) -> None:
        """Start a process, without waiting for it."""
        ...

    def reach(self, host: str) -> tuple[Address, bytes] | None:
        """Return address and key of a process of any gateway; None while it starts.

        Raises:
            StartError: the process could not start, and says why.
            LinkError: the process has died.
        """
        ...

    def stop(self, host: str) -> None:
        """End a process that was started here."""
        ...

    def show(self, shown: Mapping[str, float], gateway: str) -> None:
        """Publish a gateway's metrics: its counts so far, ``sessions``, ``queue`` and ``frame_p95_ms``."""
        ...

    def close(self) -> None:
        """End all processes that were started here."""
        ...


@dataclass(slots=True, kw_only=True)
class _Started:
    machine: str
    network: str
    is_ready: bool = False


class FleetGateway:
    """Implements :class:`.placing.Fleet`; :meth:`close` ends all sessions and processes.

    Attributes:
        name: identity of this gateway, part of the name of the topic on which its own robots send.
        busy: share of the fleet's available capacity that is promised, 0 to 1, as the ledger has last reported.
    """

    def __init__(
        self,
        cluster: Cluster,
        models: SplitModels,
        make_setting: MakeSetting,
        complain: Callable[[str], None],
    ) -> None:
        """Start to report to the ledger.

        Args:
            cluster: the machines and the ledger.
            models: the models that robots may ask for.
            make_setting: makes the setting of a process that computes a model.
            complain: called with messages for the operator.
        """
        self.name = f"gateway_{secrets.token_hex(4)}"
        self._cluster = cluster
        self._models = models
        self._make_setting = make_setting
        self._complain = complain
        self.busy = 0.0
        self._draining: frozenset[str] = frozenset()
        self._lock = threading.Lock()
        self._demands: dict[str, ModelDemand] = {}
        self._asked: dict[str, Identity] = {}  # by network
        self._hosts: dict[str, _Started] = {}
        self._sessions: dict[str, RelaySession] = {}
        self._counts: defaultdict[str, float] = defaultdict(float)
        self._ended = threading.Event()
        self._reporter = threading.Thread(target=self._report_on, name="report", daemon=True)
        self._reporter.start()

    def session(self, name: str, send: Send, complain: Callable[[str], None]) -> RelaySession:
        """Make a new session with a robot."""
        session = RelaySession(name, self, send, complain)
        with self._lock:
            self._sessions[name] = session
        return session

    def close(self) -> None:
        """End all sessions and processes."""
        self._ended.set()
        with self._lock:
            sessions = list(self._sessions.values())
        for session in sessions:
            session.close()
        self._reporter.join(2 * _REPORT_S)
        self._cluster.close()

    def admit(self, session: str, hello: Hello) -> Place | Elsewhere | Refusal:
        """Implement :meth:`.Fleet.admit`."""
        with self._lock:
            known = self._sessions.get(session)
        demand = self._demand_of(hello, is_new=known is None or known.state[1] is None)
        return self._cluster.admit(
            Asked(
                session=session, gateway=self.name, network=hello.network, deadline_ms=hello.patience_ms,
                memory_bytes=demand.memory_bytes, priority=hello.priority,
            )
        )  # fmt: skip

    def open(
        self, place: Place, hello: Hello, listening: Listening, is_wanted: Callable[[], bool]
    ) -> PacketStream | None:
        """Implement :meth:`.Fleet.open`."""
        if place.is_new:
            self._start(place, hello.network)
        ordered = time.monotonic() + (0.0 if place.is_new or place.is_ready else _ORDERED_S)
        deadline = time.monotonic() + START_S
        while time.monotonic() < deadline:
            if self._ended.is_set() or not is_wanted():
                return None  # a new process may be another session's by now; the ledger ends it where it is idle
            try:
                reached = self._cluster.reach(place.host)
            except StartError as error:
                self._end(place.host, str(error))
                raise
            except LinkError:
                if time.monotonic() > ordered:
                    raise
                reached = None  # another gateway may not have received the order to start it yet
            if reached is not None:
                return connect(*reached, listening, place.host)
            time.sleep(_READY_POLL_S)
        raise LinkError(f"{place.host} did not start in time")

    def predicted(self, hello: Hello, welcome: Welcome) -> Demand:
        """Implement :meth:`.Fleet.predicted`."""
        model = self._demand_of(hello)
        mean_ms, worst_ms = model.predicted_ms(np.array(welcome.profile, np.float64))
        return Demand(
            network=hello.network, mean_ms=max(0.01, mean_ms), worst_ms=max(0.01, worst_ms),
            period_ms=UNKNOWN_PERIOD_MS, deadline_ms=hello.patience_ms, memory_bytes=model.memory_bytes,
            priority=hello.priority,
        )  # fmt: skip

    def lose(self, place: Place) -> None:
        """Implement :meth:`.Fleet.lose`."""
        with self._lock:
            self._hosts.pop(place.host, None)
        self._cluster.lose_host(place.host)

    def leave(self, session: str) -> None:
        """Implement :meth:`.Fleet.leave`; a session that has begun anew under this name stays."""
        with self._lock:
            known = self._sessions.get(session)
            if known is not None and known.is_open:
                return
            self._sessions.pop(session, None)
        if self._ended.is_set():
            return  # the ledger notices that the gateway is gone
        try:
            self._cluster.leave(session, self.name)
        except LinkError as error:
            self._complain(str(error))

    def count(self, what: str, by: float = 1) -> None:
        """Implement :meth:`.Fleet.count`."""
        self._counts[what] += by

    def _demand_of(self, hello: Hello, *, is_new: bool = False) -> ModelDemand:
        """Predict what a model takes; a new session's model must still be offered, and may have been withdrawn."""
        known = self._demands.get(hello.network)
        if known is not None and not is_new:
            return known
        asked = Identity(model=hello.model, network=hello.network)
        model = self._models.find(asked)
        if known is None:
            known = ModelDemand(model, self._make_setting(asked).engine)
            with self._lock:
                self._asked[hello.network], self._demands[hello.network] = asked, known
        return known

    def _start(self, place: Place, network: str) -> None:
        try:
            self._cluster.start(place, self._make_setting(self._asked[network]))
        except LinkError as error:  # Ray did not take the order, which says nothing of the model
            self._end(place.host)
            raise StartError(str(error)) from None
        with self._lock:  # only now can the cluster reach it
            self._hosts[place.host] = _Started(machine=place.machine, network=network)

    def _end(self, host: str, failure: str = "") -> None:
        """End a process that is not needed, or could not start, as the failure says; its machine is not to blame."""
        self._try(partial(self._cluster.end_host, host, failure))  # first, or the ledger would miss it in a report
        if host in self._hosts:
            self._try(partial(self._stop, host))

    def _stop(self, host: str) -> None:
        self._cluster.stop(host)
        with self._lock:  # only now, as the ledger repeats the order to stop what is still reported
            self._hosts.pop(host, None)

    def _try(self, act: Callable[[], None]) -> None:
        """Do something that may fail alone: the operator is told, and whoever called goes on."""
        try:
            act()
        except CacheinfError as error:
            self._complain(str(error))
        except Exception:  # a bug must not end a thread, or the ledger would take the gateway for dead
            self._complain(traceback.format_exc())

    def _report_on(self) -> None:
        while not self._ended.wait(_REPORT_S):
            self._try(self._report)

    def _report(self) -> None:
        self._try(self._look_after_hosts)
        with self._lock:
            sessions = {name: each for name, each in self._sessions.items() if each.is_open}
            hosts = {
                name: HostReport(machine=host.machine, network=host.network, is_ready=host.is_ready)
                for name, host in self._hosts.items()
            }
        states = {name: session.state for name, session in sessions.items()}
        took_ms = [took for session in sessions.values() for took in session.frames.took_ms]
        p95_ms = float(np.percentile(took_ms, 95)) if took_ms else 0.0
        waiting = sum(session.frames.has_frame for session in sessions.values())
        counts = {**self._counts, "sessions": len(sessions), "queue": waiting, "frame_p95_ms": p95_ms}
        report = GatewayReport(gateway=self.name, hosts=hosts, sessions=states, counts=counts, draining=self._draining)
        self._try(partial(self._cluster.show, counts, self.name))
        self._obey(self._cluster.report(report), sessions)

    def _obey(self, orders: Orders, sessions: dict[str, RelaySession]) -> None:
        """Follow orders, each by itself: the ledger hands them out once."""
        self.busy, self._draining = orders.busy, orders.draining
        if orders.complaint:
            self._complain(orders.complaint)
        for place, network in orders.start:
            if network in self._asked:
                self._try(partial(self._start, place, network))
        for name, place in orders.move:
            if name in sessions:
                self._try(partial(self._prepare, place, sessions[name]))
        for name, reason in orders.shed:
            if name in sessions:
                sessions[name].shed(reason)
        for host in orders.stop:
            self._try(partial(self._stop, host))

    def _prepare(self, place: Place, session: RelaySession) -> None:
        """Start the new process of a session that moves, here, so that several start at the same time."""
        if place.is_new and session.network in self._asked:
            self._start(place, session.network)
        session.move(replace(place, is_new=False))

    def _look_after_hosts(self) -> None:
        with self._lock:
            hosts = list(self._hosts.items())
        for name, host in hosts:
            try:
                host.is_ready = self._cluster.reach(name) is not None
            except StartError as error:
                self._complain(str(error))
                self._end(name, str(error))
            except LinkError as error:
                self._complain(str(error))
                with self._lock:
                    self._hosts.pop(name, None)
