# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""A fleet in simulated time: robots, machines that fail, and the same ledger that places real sessions.

The times of frames and starts are drawn from measurements. All frames that a machine computes share its cores; a robot
has one frame at a time, and computes a frame alone whose result is not there by its deadline.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from importlib import import_module
from typing import Any

import numpy as np

from cacheinf_ros.errors import ConfigError
from cacheinf_ros.fleet.demand import Demand, DemandMeter
from cacheinf_ros.fleet.ledger import FleetLedger
from cacheinf_ros.fleet.machine_choice import Machine
from cacheinf_ros.fleet.messages import Asked, GatewayReport, HostReport, Orders, Place, Refusal
from cacheinf_ros.fleet.shared_cores import SharedCores
from cacheinf_ros.fleet.simulated_fleet import SimulatedFleet, SimulationReport
from cacheinf_ros.fleet.upkeep import keep_up

_NETWORK = "model"
_PROBE_S, _PROBE_MAX_S = 0.5, 30.0  # pauses of a robot that was refused: first, and most as they double
_ROBOTS_PER_GATEWAY = 50
_REPORT_S = 1.0  # time between two reports of a gateway
_MB = 1e6
Process = Generator[Any, Any, None]


def simulate(fleet: SimulatedFleet) -> SimulationReport:
    """Simulate a fleet; raises :class:`ConfigError` where simpy is not installed."""
    try:
        simpy = import_module("simpy")
    except ImportError:
        raise ConfigError("simulations need simpy: pip install simpy") from None
    return _Simulation(fleet, simpy).run()


class _Machine:
    def __init__(self, env: Any, name: str, cores: float, memory_bytes: float) -> None:
        self.machine = Machine(name=name, cores=cores, memory_bytes=memory_bytes)
        self.cores = SharedCores(env, max(1, int(cores)))
        self.failed = env.event()
        self.failed_s = 0.0
        self.is_alive = True


class _Simulation:
    def __init__(self, fleet: SimulatedFleet, simpy: Any) -> None:
        self.fleet = fleet
        self.env = simpy.Environment()
        self.random = np.random.default_rng(fleet.seed)
        self.ledger = FleetLedger(fleet.rules)
        self.report = SimulationReport(robots=fleet.robots, machines=fleet.machines)
        self.machines = {
            name: _Machine(self.env, name, fleet.cores, fleet.memory_mb * _MB)
            for name in (f"machine{i:03d}" for i in range(fleet.machines))
        }
        self.ready_s: dict[str, float] = {}  # when each process is ready
        self.gateways = max(1, -(-fleet.robots // _ROBOTS_PER_GATEWAY))
        self.robots = [_Robot(self, number) for number in range(fleet.robots)]
        self.busy_s = 0.0

    def run(self) -> SimulationReport:
        self._see()
        for number in range(self.gateways):
            self.env.process(self._gateway(f"gateway{number}"))
        for robot in self.robots:
            self.env.process(robot.live())
        if self.fleet.fails_every_s:
            for machine in self.machines.values():
                self.env.process(self._fail(machine))
        self.env.run(until=self.fleet.warm_s + self.fleet.seconds)
        for robot in self.robots:
            robot.end_loss()
        self.report.busy = self.busy_s / (self.fleet.machines * self.fleet.cores * self.fleet.seconds)
        return self.report

    @property
    def counts(self) -> bool:
        """Whether the warm start is over, so that results count."""
        return bool(self.env.now >= self.fleet.warm_s)

    def draw(self, values: Sequence[float]) -> float:
        """Draw one of the measurements (ms), and return it in seconds."""
        return float(self.random.choice(values)) / 1e3

    def start(self, host: str) -> None:
        """Start a process."""
        self.ready_s[host] = self.env.now + self.fleet.measured.start_ms / 1e3

    def _see(self) -> None:
        self.ledger.see([each.machine for each in self.machines.values() if each.is_alive])

    def _gateway(self, name: str) -> Process:
        yield self.env.timeout(self.random.uniform(0, _REPORT_S))
        while True:
            now = self.env.now
            own = [robot for robot in self.robots if robot.gateway == name]
            hosts = {
                host: HostReport(machine=entry.machine, network=_NETWORK, is_ready=self.ready_s[host] <= now)
                for host, entry in self.ledger.state.hosts.items()
                if entry.gateway == name and host in self.ready_s
            }
            sessions = {robot.name: (robot.host, robot.demand) for robot in own if robot.is_served}
            orders = self.ledger.report(GatewayReport(gateway=name, hosts=hosts, sessions=sessions), now)
            if name == "gateway0":
                keep_up(self.ledger, now)
            self._obey(orders)
            yield self.env.timeout(_REPORT_S)

    def _obey(self, orders: Orders) -> None:
        by_name = {robot.name: robot for robot in self.robots}
        for place, _ in orders.start:
            self.start(place.host)
        for name, place in orders.move:
            if place.is_new:
                self.start(place.host)
            by_name[name].target = place
        for name, _ in orders.shed:
            by_name[name].leave()

    def _fail(self, machine: _Machine) -> Process:
        while True:
            yield self.env.timeout(self.random.exponential(self.fleet.fails_every_s))
            machine.is_alive, machine.failed_s = False, self.env.now
            failed, machine.failed = machine.failed, self.env.event()
            self._see()
            self.report.failures += self.counts
            failed.succeed()
            yield self.env.timeout(self.fleet.repaired_s)
            machine.is_alive = True
            self._see()


class _Robot:
    def __init__(self, simulation: _Simulation, number: int) -> None:
        self._of = simulation
        self._number = number
        self.name = f"robot{number}"
        self.gateway = f"gateway{number % simulation.gateways}"
        self.host = ""
        self.machine: _Machine | None = None
        self.target: Place | None = None
        self.is_served = False
        self._ready_s = self._next_ask_s = 0.0
        self._refusals = 0
        self._is_dense = True
        self._working: Any = None  # the computation of its session, whether or not the robot still waits for it
        self._lost: int | None = None  # frames computed alone since its machine was lost
        self._meter = DemandMeter()
        fleet, measured = simulation.fleet, simulation.fleet.measured
        self._predicted = Demand(
            network=_NETWORK, mean_ms=float(np.mean(measured.frame_ms)), worst_ms=measured.dense_ms,
            period_ms=1e3 / fleet.hz, deadline_ms=fleet.deadline_ms, memory_bytes=measured.session_mb * _MB,
        )  # fmt: skip

    @property
    def demand(self) -> Demand:
        """The measured demand of the robot's session, or the predicted one at first."""
        return self._meter.measured(self._predicted, self._of.env.now)

    def leave(self) -> None:
        """Give up the place, as the fleet has no more room."""
        self.host, self.machine, self.is_served = "", None, False
        self._refuse()

    def live(self) -> Process:
        """Film for ever, one frame at a time."""
        env, period_s = self._of.env, 1 / self._of.fleet.hz
        phases = self._of.fleet.phases
        yield env.timeout(period_s * (phases[self._number] if phases else self._of.random.uniform()))
        while True:
            began = env.now
            yield from self._frame()
            missed = int((env.now - began) / period_s)
            yield env.timeout(max(0.0, began + (missed + 1) * period_s - env.now))

    def _frame(self) -> Process:
        self._find_place()
        self._follow()
        if not self.is_served or self._of.env.now < self._ready_s:
            self._alone(is_late=False)
            return
        yield from self._shared_frame()

    def _shared_frame(self) -> Process:
        of, fleet, machine = self._of, self._of.fleet, self.machine
        assert machine is not None
        env, began, lost = of.env, of.env.now, machine.failed
        deadline_s = fleet.deadline_ms / 1e3
        service_s = fleet.measured.dense_ms / 1e3 if self._is_dense else of.draw(fleet.measured.frame_ms)
        overhead_s = of.draw(fleet.measured.overhead_ms)
        self._meter.start(began)
        too_late = env.timeout(deadline_s)
        if self._working is not None and self._working.is_alive:  # it still computes an earlier frame
            yield self._working | lost | too_late
        if not too_late.processed and not lost.triggered:
            self._working = env.process(self._work(machine, service_s, lost))
            yield self._working | lost | too_late
        if lost.triggered:
            self._lose()
        elif env.now - began + overhead_s > deadline_s:
            self._is_dense = True  # the session starts anew
            self._alone(is_late=True)
        else:
            self._done(env.now - began + overhead_s, service_s)

    def _work(self, machine: _Machine, service_s: float, lost: Any) -> Process:
        worked_s = yield from machine.cores.work(service_s, lost)
        self._of.busy_s += worked_s * self._of.counts

    def _done(self, took_s: float, service_s: float) -> None:
        self._is_dense = False
        self._meter.done(1e3 * service_s)
        self.end_loss()
        if self._of.counts:
            self._of.report.shared += 1
            self._of.report.latencies_ms.append(1e3 * took_s)

    def _begin_loss(self) -> None:
        self.end_loss()
        self._lost = 0 if self._of.counts else None

    def end_loss(self) -> None:
        """Report how many frames the last loss of a machine has cost, if that is not done; it may go on."""
        if self._lost is not None:
            self._of.report.lost_by_failure.append(self._lost)
            self._lost = None

    def _alone(self, *, is_late: bool) -> None:
        if self._lost is not None:
            self._lost += 1
        if self._of.counts:
            self._of.report.late += is_late
            self._of.report.alone += not is_late

    def _lose(self) -> None:
        """Handle the loss of the machine in the middle of a frame: ask for another place at once."""
        self._begin_loss()
        self._alone(is_late=False)
        self.host, self.machine = "", None
        self._find_place()

    def _find_place(self) -> None:
        of, now = self._of, self._of.env.now
        noticed_s = now
        if self.machine is not None and not self.machine.is_alive:  # lost between two frames
            noticed_s = self.machine.failed_s
            self.host, self.machine = "", None
            self._begin_loss()
        if self.host and self.host in of.ledger.state.hosts:
            return
        if self.host and self.host not in of.ledger.state.hosts:
            self.host, self.machine = "", None
        if now < self._next_ask_s:
            return
        asked = Asked(
            session=self.name, gateway=self.gateway, network=_NETWORK, deadline_ms=of.fleet.deadline_ms,
            memory_bytes=of.fleet.measured.session_mb * _MB, predicted=self._predicted,
        )  # fmt: skip
        answer = of.ledger.admit(asked, now)
        if isinstance(answer, Place):
            if answer.is_new:
                of.start(answer.host)
            self._take(answer)
            self._ready_s = max(of.ready_s.get(answer.host, 0.0), noticed_s + of.fleet.measured.adopt_ms / 1e3)
        elif isinstance(answer, Refusal):
            self.is_served = False
            self._refuse()

    def _refuse(self) -> None:
        if self._of.counts:
            self._of.report.refused.add(self._number)
        wait_s = min(_PROBE_S * 2.0 ** min(self._refusals, 30), _PROBE_MAX_S)
        self._refusals += 1
        self._next_ask_s = self._of.env.now + wait_s

    def _take(self, place: Place) -> None:
        self.host, self.machine = place.host, self._of.machines[place.machine]
        self.is_served, self._is_dense, self._refusals = True, True, 0
        self._working = None

    def _follow(self) -> None:
        """Make a planned move, between two frames, as soon as the new process is ready."""
        place = self.target
        if place is not None and self._of.ready_s.get(place.host, 0.0) <= self._of.env.now:
            self.target = None
            if place.host in self._of.ledger.state.hosts:
                self._take(place)
                self._of.report.moves += self._of.counts
