# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The ledger of a fleet: who is where among machines, the processes on them, sessions, and robots' gateways.

It decides but does nothing itself: whoever asks carries out the answer, and reports the result. The whole ledger can
be lost: the gateways' next reports restore it. Times are seconds of any clock.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Iterable
from dataclasses import replace

from cacheinf_ros.fleet.demand import HOST_BYTES, UNKNOWN_PERIOD_MS, Demand
from cacheinf_ros.fleet.fleet_state import START_S, FleetState, GatewayEntry, HostEntry, SessionEntry, StartFailure
from cacheinf_ros.fleet.machine_choice import (
    FleetRules,
    Machine,
    MachineLoad,
    best_machine,
    busy_share,
    is_hopeless,
    objection,
)
from cacheinf_ros.fleet.messages import Asked, Elsewhere, GatewayReport, Orders, Place, Refusal

_REMEMBERED = 1000
_LEAST_CORES = 0.01
_DOUBT_S = 20.0  # for so long a machine on which a process died gets no other: Ray calls a node dead after 13 s
_FAILED_S = 60.0  # for so long a model that could not be started on a machine is not tried there again
_SILENT_S = 5.0  # a gateway counts as gone after so long without a word
_UNKNOWN_MS = 20.0  # assumed for a frame of a model that nobody has computed yet
_GRACE_S = 5.0  # allowed between a session's admission and the first report of it
_SENT_ON_S = 2.0  # a robot that was redirected and still asks here after so long may stay


class FleetLedger:
    """Decides on which machines and gateways sessions are; not thread-safe.

    Attributes:
        state: all that is known about the fleet.
    """

    def __init__(self, rules: FleetRules) -> None:
        self.state = FleetState(rules)
        self._numbers = itertools.count()
        self._dead: deque[str] = deque(maxlen=_REMEMBERED)  # processes, which reports may still name
        self._sent_on: dict[str, float] = {}  # sessions that were redirected to another gateway, with the time
        self._decided: set[str] = set()  # machines of which this ledger was told whether they are to become empty
        self._heard_s = self._awake_s = float("-inf")  # last word of any gateway, and since when they are heard

    def see(self, machines: Iterable[Machine]) -> None:
        """Note which machines are alive; what ran on others is lost."""
        self.state.machines = {machine.name: machine for machine in machines}
        for name in [name for name, host in self.state.hosts.items() if host.machine not in self.state.machines]:
            self.lose_host(name)
        self.state.draining &= set(self.state.machines)

    def admit(self, asked: Asked, now_s: float) -> Place | Elsewhere | Refusal:
        """Find a place for a session that has none; a session that has one keeps it.

        Where there is room only without robots of lower priority, these are told to go.
        """
        self._hear(asked.gateway, now_s)
        own = self._gateway_for(asked.session, asked.gateway, now_s)
        if own != asked.gateway:
            return Elsewhere(gateway=own)
        known = self.state.sessions.get(asked.session)
        if known is not None and known.host in self.state.hosts:
            return self.place(known.host)
        demand = self._demand(asked)
        place = self.find(demand, asked.gateway, now_s, is_urgent=known is not None)
        if isinstance(place, Refusal):
            self.state.counts["refused"] += 1
            self.state.sessions.pop(asked.session, None)
            return place
        self.state.sessions[asked.session] = SessionEntry(
            gateway=asked.gateway, demand=demand, since_s=known.since_s if known else now_s, host=place.host
        )
        self.state.counts["admitted"] += known is None
        return place

    def leave(self, session: str, gateway: str) -> None:
        """Remove a session that has ended at a gateway; one that another gateway has taken over goes on there."""
        known = self.state.sessions.get(session)
        if known is not None and known.gateway == gateway:
            del self.state.sessions[session]

    def host_died(self, host: str, now_s: float) -> None:
        """Note that a process was found dead, and avoid its machine, whose loss Ray notices much later."""
        entry = self.state.hosts.get(host)
        if entry is not None:
            self.state.doubted[entry.machine] = now_s + _DOUBT_S
        self.lose_host(host)

    def lose_host(self, host: str) -> None:
        """Remove a process that is gone; its sessions keep their claim to another place."""
        self.state.counts["lost"] += host in self.state.hosts
        self._dead.append(host)
        self._remove(host)

    def end_host(self, host: str, now_s: float, failure: str = "") -> None:
        """Remove a process that is to end, has ended, or has not started; whoever still reports it is to stop it.

        Its machine is not to blame; but if the process could not start, the failure, its model is not tried there
        again for a while.
        """
        entry = self.state.hosts.get(host)
        if failure and entry is not None:
            failed = StartFailure(reason=failure, until_s=now_s + _FAILED_S)
            self.state.failures[entry.machine, entry.network] = failed
        self._dead.append(host)
        self._remove(host)

    def drain(self, machine: str) -> None:
        """Let a machine become empty, without losing a frame; :meth:`undrain` takes that back."""
        self._decided.add(machine)
        self.state.draining.add(machine)

    def undrain(self, machine: str) -> None:
        """Use a machine again."""
        self._decided.add(machine)
        self.state.draining.discard(machine)

    def report(self, report: GatewayReport, now_s: float) -> Orders:
        """Take a gateway's report, and return the orders that :mod:`.upkeep` has collected for it."""
        self._hear(report.gateway, now_s)
        self.state.gateways[report.gateway].counts = report.counts
        self._take(report, now_s)
        if now_s - self._awake_s <= _SILENT_S:  # this ledger may be new
            self.state.draining |= (report.draining & set(self.state.machines)) - self._decided
        self._forget_silent(now_s)
        self._sent_on = {name: at for name, at in self._sent_on.items() if now_s - at < 2 * _SENT_ON_S}
        orders = self.state.orders.pop(report.gateway, Orders())
        dead = [name for name in report.hosts if name in self._dead]  # again, as an answer may have been lost
        stop = tuple(dict.fromkeys((*orders.stop, *dead)))
        draining = frozenset(self.state.draining)
        return replace(orders, stop=stop, busy=busy_share(self.state.loads, self.state.rules), draining=draining)

    def find(self, demand: Demand, gateway: str, now_s: float, *, is_urgent: bool = False) -> Place | Refusal:
        """Find a place for a session; an urgent one goes to a running process, if any machine has room for it."""
        running = self._least_host(demand.network) if is_urgent else None
        loads = self.state.loads if running else self.state.loads_for(demand.network)
        machine = best_machine(loads, demand, self.state.rules)
        if isinstance(machine, str):
            made = self._room_by_priority(demand)
            if made is None:
                return Refusal(reason=self._why_not(machine, demand.network))
            machine = made
        name = machine.machine.name
        if is_urgent:
            return self.place(running) if running else self.new_host(name, demand, gateway, now_s)
        counts = self.state.counted
        free = [
            host
            for host, entry in self.state.hosts.items()
            if entry.machine == name
            and entry.network == demand.network
            and counts[host] < self.state.rules.sessions_per_host
        ]
        return self.place(min(free)) if free else self.new_host(name, demand, gateway, now_s)

    def new_host(self, machine: str, demand: Demand, gateway: str, now_s: float) -> Place:
        """Register a new process, and return its place; a gateway is to start it."""
        name = f"{gateway}_host_{next(self._numbers)}_{round(1e3 * now_s) % 10**9}"
        self.state.hosts[name] = HostEntry(
            machine=machine, network=demand.network, gateway=gateway, since_s=now_s, idle_s=now_s
        )
        memory = demand.memory_bytes + HOST_BYTES
        cores = round(min(max(_LEAST_CORES, demand.cores), self.state.machines[machine].cores), 3)
        return Place(host=name, machine=machine, gateway=gateway, is_new=True, memory_bytes=memory, cores=cores)

    def place(self, host: str) -> Place:
        """Return the place of an existing process."""
        entry = self.state.hosts[host]
        return Place(host=host, machine=entry.machine, gateway=entry.gateway, is_ready=entry.is_ready)

    def _hear(self, gateway: str, now_s: float) -> None:
        if now_s - self._heard_s > _SILENT_S:
            self._awake_s = now_s
        self._heard_s = now_s
        self.state.gateways.setdefault(gateway, GatewayEntry(heard_s=now_s)).heard_s = now_s

    def _gateway_for(self, session: str, asking: str, now_s: float) -> str:
        known = self.state.sessions.get(session)
        if known is not None and self._is_heard(known.gateway, now_s):
            return known.gateway
        if known is not None:
            known.gateway = asking
            return asking
        alive = [name for name in self.state.gateways if self._is_heard(name, now_s)]
        robots = {name: sum(each.gateway == name for each in self.state.sessions.values()) for name in alive}
        least = min(alive, key=lambda name: (robots[name], name))
        if robots[asking] <= robots[least]:
            return asking
        first_s = self._sent_on.setdefault(session, now_s)
        if now_s - first_s < _SENT_ON_S:
            return least
        del self._sent_on[session]
        return asking

    def _is_heard(self, gateway: str, now_s: float) -> bool:
        return gateway in self.state.gateways and now_s - self.state.gateways[gateway].heard_s <= _SILENT_S

    def _demand(self, asked: Asked) -> Demand:
        """Predict a session's demand; the measured mean of other sessions of the model is preferred."""
        alike = [each.demand for each in self.state.sessions.values() if each.demand.network == asked.network]
        known = self.state.sessions.get(asked.session)
        if known is not None:
            return known.demand
        guess = asked.predicted
        mean_ms, worst_ms = (guess.mean_ms, guess.worst_ms) if guess else (_UNKNOWN_MS, _UNKNOWN_MS)
        period_ms = guess.period_ms if guess else UNKNOWN_PERIOD_MS
        if alike:
            mean_ms = sum(each.mean_ms for each in alike) / len(alike)
            worst_ms = sum(each.worst_ms for each in alike) / len(alike)
            period_ms = len(alike) / sum(1 / each.period_ms for each in alike)
        return Demand(
            network=asked.network, mean_ms=mean_ms, worst_ms=worst_ms, period_ms=period_ms,
            deadline_ms=asked.deadline_ms, memory_bytes=asked.memory_bytes, priority=asked.priority,
        )  # fmt: skip

    def _least_host(self, network: str) -> str | None:
        """Return the running process with the model that has the fewest sessions; None: there is none."""
        counts, hosts = self.state.counted, self.state.hosts
        ready = [
            name
            for name, host in hosts.items()
            if host.network == network and host.is_ready and host.machine not in self.state.draining
        ]
        doubted = self.state.doubted
        return min(ready, key=lambda name: (hosts[name].machine in doubted, counts[name], name)) if ready else None

    def _why_not(self, objections: str, network: str) -> str:
        """Return why a session of a model has no place: no room, or the model could not be started."""
        failed = [failure.reason for (_, model), failure in self.state.failures.items() if model == network]
        if failed and not self.state.loads_for(network):
            return failed[-1]
        return "; ".join((f"the fleet has no room: {objections}", *failed[-1:]))

    def _room_by_priority(self, demand: Demand) -> MachineLoad | None:
        """Find a machine with room if sessions of lower priority leave, and mark these to be shed."""
        if is_hopeless(demand, self.state.rules):
            return None
        for load in self.state.loads_for(demand.network):
            name = load.machine.name
            there = [
                each for each in self.state.sessions.values() if self.state.machine_of(each) == name and not each.shed
            ]
            lower = sorted(
                (each for each in there if each.demand.priority < demand.priority),
                key=lambda each: (each.demand.priority, -each.since_s),
            )
            for count in range(1, len(lower) + 1):
                left = tuple(each.demand for each in there if each not in lower[:count])
                freed = MachineLoad(machine=load.machine, demands=left, networks=load.networks, hosts=load.hosts)
                if not objection(freed.joined_by(demand), self.state.rules):
                    for each in lower[:count]:
                        each.shed = "a robot of higher priority needs the place"
                    return freed
        return None

    def _take(self, report: GatewayReport, now_s: float) -> None:
        for name, host in report.hosts.items():
            if host.machine not in self.state.machines or name in self._dead:
                continue
            entry = self.state.hosts.setdefault(
                name,
                HostEntry(
                    machine=host.machine, network=host.network, gateway=report.gateway, since_s=now_s, idle_s=now_s
                ),
            )
            entry.is_seen, entry.is_ready = True, host.is_ready
        for name, (at, demand) in report.sessions.items():
            session = self.state.sessions.get(name)
            if session is not None and session.gateway != report.gateway and self._is_heard(session.gateway, now_s):
                continue  # while its gateway lives, only an admission moves a session to another one
            if session is None:
                if demand is None or at not in self.state.hosts:
                    continue  # not admitted yet
                session = self.state.sessions[name] = SessionEntry(gateway=report.gateway, demand=demand, since_s=now_s)
            session.gateway, session.demand = report.gateway, demand or session.demand
            if at and at == session.target:
                session.host, session.target = at, ""
                self.state.counts["moved"] += 1
            elif at in self.state.hosts and not session.target:
                session.host = at
        for name, known in list(self.state.hosts.items()):
            if known.gateway != report.gateway or name in report.hosts:
                continue
            if known.is_seen:
                self.host_died(name, now_s)
            elif now_s - known.since_s > START_S:
                self.end_host(name, now_s)  # the order has not arrived
        for name, session in list(self.state.sessions.items()):
            is_missing = session.gateway == report.gateway and name not in report.sessions
            if is_missing and now_s - session.since_s > _GRACE_S:
                del self.state.sessions[name]

    def _remove(self, host: str) -> None:
        if self.state.hosts.pop(host, None) is None:
            return
        for session in self.state.sessions.values():
            if session.host == host:
                session.host = ""
            if session.target == host:
                session.target = ""

    def _forget_silent(self, now_s: float) -> None:
        """Forget gateways that are gone, with their processes and sessions; robots find another one.

        If nobody was heard for a while, the ledger itself was away, and first waits for the gateways' next reports.
        Processes that are forgotten do not count as dead: a report restores those of a gateway that lives.
        """
        if now_s - self._awake_s <= _SILENT_S:
            return
        for name in [
            name for name in self.state.gateways if now_s - self.state.gateways[name].heard_s > 10 * _SILENT_S
        ]:
            del self.state.gateways[name]
            for host in [host for host, entry in self.state.hosts.items() if entry.gateway == name]:
                self._remove(host)
            for session in [each for each, entry in self.state.sessions.items() if entry.gateway == name]:
                del self.state.sessions[session]
