# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The actors on a Ray cluster: one at the head that keeps the ledger, and one for each process that computes."""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from cacheinf_ros.fleet.held_models import HeldModels
from cacheinf_ros.fleet.ledger import FleetLedger
from cacheinf_ros.fleet.machine_choice import FleetRules, Machine
from cacheinf_ros.fleet.messages import Asked, Elsewhere, GatewayReport, Orders, Place, Refusal
from cacheinf_ros.fleet.ray_library import cause, ray
from cacheinf_ros.fleet.ray_models import RayModels
from cacheinf_ros.fleet.status import FleetStatus, status_of
from cacheinf_ros.fleet.upkeep import keep_up

if TYPE_CHECKING:  # torch is for the processes that compute
    from cacheinf_ros.fleet.frame_stream import Address
    from cacheinf_ros.fleet.host import HostSetting

NAMESPACE = "cacheinf"
DIRECTOR = "cacheinf_director"
_LOOK_S = 0.25
_log = logging.getLogger(__name__)


class Director:
    """Keeps the ledger, and the models that machines hold; an actor at the head of the cluster.

    See :class:`.ledger.FleetLedger` and :class:`.held_models.HeldModels`.
    """

    def __init__(self, rules: FleetRules) -> None:
        self._lock = threading.Lock()
        self._ledger = FleetLedger(rules)
        self._models = HeldModels()
        self._complaint = ""  # about the last look at the machines
        self._look()
        threading.Thread(target=self._look_on, name="look", daemon=True).start()

    def admit(self, asked: Asked) -> Place | Elsewhere | Refusal:
        """Call :meth:`.FleetLedger.admit`."""
        with self._lock:
            return self._ledger.admit(asked, time.monotonic())

    def report(self, report: GatewayReport) -> Orders:
        """Call :meth:`.FleetLedger.report`; the orders also tell gateways if machines are not looked after."""
        with self._lock:
            return replace(self._ledger.report(report, time.monotonic()), complaint=self._complaint)

    def lose_host(self, host: str) -> None:
        """Call :meth:`.FleetLedger.host_died`."""
        with self._lock:
            self._ledger.host_died(host, time.monotonic())

    def end_host(self, host: str, failure: str) -> None:
        """Call :meth:`.FleetLedger.end_host`."""
        with self._lock:
            self._ledger.end_host(host, time.monotonic(), failure)

    def leave(self, session: str, gateway: str) -> None:
        """Call :meth:`.FleetLedger.leave`."""
        with self._lock:
            self._ledger.leave(session, gateway)

    def drain(self, machine: str, is_wanted: bool) -> None:
        """Call :meth:`.FleetLedger.drain`, or :meth:`.FleetLedger.undrain` where ``is_wanted`` is False."""
        with self._lock:
            (self._ledger.drain if is_wanted else self._ledger.undrain)(machine)

    def status(self) -> FleetStatus:
        """Return the status of the fleet."""
        with self._lock:
            return status_of(self._ledger, time.monotonic())

    def find_model(self, machine: str, key: str, host: str) -> list[Any]:
        """Call :meth:`.HeldModels.find`; returns a list, as Ray would send the model for a bare reference."""
        with self._lock:
            found = self._models.find(machine, key, host, time.monotonic())
        return [] if found is None else [found]

    def hold_model(self, machine: str, key: str, host: str, references: list[Any]) -> None:
        """Call :meth:`.HeldModels.hold` with the one reference in the list."""
        with self._lock:
            self._models.hold(machine, key, host, references[0], time.monotonic())

    def _look_on(self) -> None:
        """Look at the machines again and again, in a thread of its own.

        Just after a node has died, Ray may take long to answer: nobody waits for that. Whatever it raises, it is asked
        again, or a lost machine would never be noticed.
        """
        while True:
            time.sleep(_LOOK_S)
            self._look_or_complain()

    def _look_or_complain(self) -> None:
        try:
            self._look()
            self._complaint = ""
        except Exception as error:
            complaint = f"the fleet's machines are not looked after: {cause(error)}"
            if complaint != self._complaint:  # not repeated, as an actor's log is not throttled
                _log.exception("%s", complaint)
            self._complaint = complaint

    def _look(self) -> None:
        machines = _machines(ray())
        with self._lock:
            self._ledger.see(machines)
            keep_up(self._ledger, time.monotonic())
            self._models.release(self._ledger.state.hosts, time.monotonic())


class HostActor:
    """A :class:`.host.SessionHost` on a machine of the cluster."""

    def __init__(self, setting: HostSetting) -> None:
        from cacheinf_ros.fleet.host import SessionHost

        context = ray().get_runtime_context()
        models = RayModels(ray().get_actor(DIRECTOR), context.get_node_id(), context.get_actor_name())
        self._host = SessionHost(setting, ray().util.get_node_ip_address(), models)

    def where(self) -> tuple[Address, bytes]:
        """Return the address where the process listens, and its key."""
        return self._host.address, self._host.key


def _machines(ray_itself: Any) -> list[Machine]:
    """Return the nodes that are alive and have processors for sessions."""
    return [
        Machine(name=node["NodeID"], cores=node["Resources"]["CPU"], memory_bytes=node["Resources"].get("memory", 0.0))
        for node in ray_itself.nodes()
        if node["Alive"] and node["Resources"].get("CPU", 0.0) > 0
    ]
