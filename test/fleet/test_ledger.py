# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""A fleet's ledger always keeps sessions where they may be, and is told everything again after it was lost."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from cacheinf_ros.fleet.demand import Demand
from cacheinf_ros.fleet.fleet_state import START_S
from cacheinf_ros.fleet.ledger import FleetLedger
from cacheinf_ros.fleet.machine_choice import FleetRules, Machine, objection
from cacheinf_ros.fleet.messages import Asked, Elsewhere, GatewayReport, HostReport, Place, Refusal
from cacheinf_ros.fleet.upkeep import keep_up

MACHINES = [Machine(name=f"m{i}", cores=2.0, memory_bytes=32e9) for i in range(3)]
GATEWAYS = ("g0", "g1")
ROBOTS = tuple(f"r{i}" for i in range(8))


def demand_of(robot: str) -> Demand:
    """Return a robot's demand: some are light, some heavy, and the last ones have a higher priority."""
    number = int(robot[1:])
    return Demand(
        network="ab"[number % 2], mean_ms=20.0 + 30.0 * (number % 3), worst_ms=120.0, period_ms=200.0,
        deadline_ms=300.0, memory_bytes=1e8, priority=number // 6,
    )  # fmt: skip


def asked(robot: str, gateway: str) -> Asked:
    demand = demand_of(robot)
    return Asked(
        session=robot, gateway=gateway, network=demand.network, deadline_ms=demand.deadline_ms,
        memory_bytes=demand.memory_bytes, priority=demand.priority, predicted=demand,
    )  # fmt: skip


class Gateway:
    """A gateway that follows all orders at once."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.hosts: dict[str, HostReport] = {}
        self.sessions: dict[str, str] = {}
        self.draining: frozenset[str] = frozenset()

    def start(self, place: Place, network: str) -> None:
        self.hosts[place.host] = HostReport(machine=place.machine, network=network, is_ready=True)

    def report(self) -> GatewayReport:
        sessions = {robot: (host, demand_of(robot) if host else None) for robot, host in self.sessions.items()}
        return GatewayReport(gateway=self.name, hosts=dict(self.hosts), sessions=sessions, draining=self.draining)


class Fleet(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.now_s = 0.0
        self.ledger = FleetLedger(FleetRules(idle_s=2.0))
        self.alive = list(MACHINES)
        self.ledger.see(self.alive)
        self.gateways = {name: Gateway(name) for name in GATEWAYS}
        self.report()

    @rule(robot=st.sampled_from(ROBOTS), gateway=st.sampled_from(GATEWAYS))
    def greet(self, robot: str, gateway: str) -> None:
        self.now_s += 0.1
        answer = self.ledger.admit(asked(robot, gateway), self.now_s)
        if isinstance(answer, Elsewhere):
            assert answer.gateway != gateway
            before = self.owner_of(robot)
            report = self.gateways[gateway].report()  # made before the answer: the session is not placed yet
            self.tell(self.gateways[gateway], replace(report, sessions={**report.sessions, robot: ("", None)}))
            self.ledger.leave(robot, gateway)  # as a gateway that is told so does; the other one's session stays
            assert self.owner_of(robot) == before
            return
        own = self.gateways[gateway]
        if isinstance(answer, Refusal):
            assert answer.reason
            own.sessions.pop(robot, None)
            return
        assert answer.machine not in self.ledger.state.draining or robot in own.sessions
        if answer.is_new:
            own.start(answer, demand_of(robot).network)
        own.sessions[robot] = answer.host

    @rule(robot=st.sampled_from(ROBOTS))
    def leave(self, robot: str) -> None:
        for gateway in self.gateways.values():
            if gateway.sessions.pop(robot, None) is not None:
                self.ledger.leave(robot, gateway.name)

    @rule()
    def report(self) -> None:
        self.now_s += 0.5
        for gateway in self.gateways.values():
            self.tell(gateway, gateway.report())
        keep_up(self.ledger, self.now_s)

    @rule()
    def lose_the_answers(self) -> None:
        self.now_s += 0.5
        for gateway in self.gateways.values():
            self.ledger.report(gateway.report(), self.now_s)
        keep_up(self.ledger, self.now_s)

    @rule(names=st.permutations(GATEWAYS))
    def pause_the_ledger(self, names: list[str]) -> None:
        self.now_s += 60.0
        for name in names:
            self.tell(self.gateways[name], self.gateways[name].report())
        reported = {host for gateway in self.gateways.values() for host in gateway.hosts}
        assert reported <= set(self.ledger.state.hosts)

    def tell(self, gateway: Gateway, report: GatewayReport) -> None:
        """Send a report to the ledger, and follow the orders that it returns."""
        there = {machine.name for machine in self.alive}  # an order may be for a machine that has died since
        orders = self.ledger.report(report, self.now_s)
        gateway.draining = orders.draining
        for place, network in orders.start:
            if place.machine in there:
                gateway.start(place, network)
        for host in orders.stop:
            assert host not in gateway.sessions.values(), "a process that is used is not ended"
            gateway.hosts.pop(host, None)  # it was never started where its machine had died by then
        for robot, place in orders.move:
            if place.machine not in there:
                continue
            if place.is_new:
                gateway.start(place, demand_of(robot).network)
            if robot in gateway.sessions:
                gateway.sessions[robot] = place.host
        for robot, _ in orders.shed:
            gateway.sessions.pop(robot, None)

    def owner_of(self, robot: str) -> str | None:
        """Return the gateway that has the robot's session, as far as the ledger knows."""
        known = self.ledger.state.sessions.get(robot)
        return known.gateway if known is not None else None

    @rule(number=st.integers(0, 2))
    def fail_or_repair(self, number: int) -> None:
        machine = MACHINES[number]
        if machine not in self.alive:
            self.alive.append(machine)
        elif len(self.alive) > 1:
            self.alive.remove(machine)
        self.ledger.see(self.alive)
        there = {machine.name for machine in self.alive}
        for gateway in self.gateways.values():
            gateway.hosts = {name: host for name, host in gateway.hosts.items() if host.machine in there}
            gateway.sessions = {
                robot: host if host in gateway.hosts or not host.startswith(gateway.name) else ""
                for robot, host in gateway.sessions.items()
            }

    @rule(number=st.integers(0, 2))
    def drain_or_not(self, number: int) -> None:
        name = MACHINES[number].name
        if name in self.ledger.state.draining:
            self.ledger.undrain(name)
        elif name in self.ledger.state.machines:
            self.ledger.drain(name)

    @rule()
    def lose_the_ledger(self) -> None:
        before = {robot: host for gateway in self.gateways.values() for robot, host in gateway.sessions.items() if host}
        hosts = {name for gateway in self.gateways.values() for name in gateway.hosts}
        draining = frozenset().union(*(gateway.draining for gateway in self.gateways.values()))
        self.ledger = FleetLedger(FleetRules(idle_s=2.0))
        self.ledger.see(self.alive)
        for gateway in self.gateways.values():
            self.ledger.report(gateway.report(), self.now_s)
        for gateway in self.gateways.values():  # a session may be in a process of a gateway that reports later
            self.ledger.report(gateway.report(), self.now_s)
        assert {robot for robot, host in before.items() if host in hosts} <= set(self.ledger.state.sessions)
        assert self.ledger.state.draining == draining & set(self.ledger.state.machines)

    @invariant()
    def sessions_are_in_processes_that_exist(self) -> None:
        for session in self.ledger.state.sessions.values():
            assert session.host in self.ledger.state.hosts or not session.host
            assert session.target in self.ledger.state.hosts or not session.target
        assert {host.machine for host in self.ledger.state.hosts.values()} <= set(self.ledger.state.machines)


Fleet.TestCase.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)
TestFleet = Fleet.TestCase


def test_who_matters_less_makes_room_and_nobody_else() -> None:
    ledger = FleetLedger(FleetRules(standby=False))
    ledger.see(MACHINES[:1])

    def greet(robot: str, priority: int, network: str = "a", worst_ms: float = 80.0) -> object:
        demand = Demand(
            network=network, mean_ms=70.0, worst_ms=worst_ms, period_ms=100.0, deadline_ms=1000.0, priority=priority
        )
        ask = Asked(
            session=robot, gateway="g", network=network, deadline_ms=1000.0, memory_bytes=0.0, priority=priority,
            predicted=demand,
        )  # fmt: skip
        return ledger.admit(ask, 0.0)

    assert isinstance(greet("first", 0), Place)
    assert isinstance(greet("second", 1), Place)
    assert isinstance(greet("third", 0), Refusal)
    assert isinstance(greet("hopeless", 2, "b", worst_ms=900.0), Refusal)
    assert not any(each.shed for each in ledger.state.sessions.values()), "nobody leaves for one that cannot be served"
    assert isinstance(greet("fourth", 1), Place)
    keep_up(ledger, 0.1)
    assert [name for name, _ in ledger.state.orders["g"].shed] == ["first"]
    assert not objection(ledger.state.loads[0], ledger.state.rules)


def test_robots_are_told_apart_among_gateways() -> None:
    ledger = FleetLedger(FleetRules())
    ledger.see(MACHINES)
    for name in GATEWAYS:
        ledger.report(GatewayReport(gateway=name), 0.0)
    for robot in ROBOTS[:6:3]:  # light ones
        answers = [ledger.admit(asked(robot, name), 0.1) for name in GATEWAYS]
        assert sum(isinstance(answer, Place) for answer in answers) == 1
    assert sorted(session.gateway for session in ledger.state.sessions.values()) == list(GATEWAYS)
    other = ledger.state.sessions["r0"].gateway
    asking = next(name for name in GATEWAYS if name != other)
    ledger.report(GatewayReport(gateway=asking), 10.0)
    assert isinstance(ledger.admit(asked("r0", asking), 10.0), Place), "its own gateway has been silent"


def test_a_session_whose_process_still_starts_keeps_its_place() -> None:
    ledger = FleetLedger(FleetRules())
    ledger.see(MACHINES)
    place = ledger.admit(asked("r0", "g0"), 0.0)
    orders = ledger.report(GatewayReport(gateway="g0", sessions={"r0": ("", None)}), 0.5)
    assert 0.0 < orders.busy < 1.0, "it is told what has been promised"
    assert isinstance(place, Place) and ledger.state.sessions["r0"].host == place.host
    assert ledger.state.counts["moved"] == 0


def test_where_a_process_has_died_none_is_placed_for_a_while() -> None:
    """Ray notices late that a node is dead, whose machine then looks idle."""
    ledger, gateway = FleetLedger(FleetRules()), Gateway("g0")
    ledger.see(MACHINES[:2])

    def greet(robot: str, now_s: float) -> Place:
        place = ledger.admit(asked(robot, "g0"), now_s)
        assert isinstance(place, Place)
        if place.is_new:
            gateway.start(place, demand_of(robot).network)
        gateway.sessions[robot] = place.host
        return place

    first = greet("r0", 0.0)
    ledger.report(gateway.report(), 0.5)
    ledger.host_died(first.host, 1.0)
    del gateway.hosts[first.host]
    again = greet("r0", 1.1)
    assert again.machine != first.machine
    keep_up(ledger, 1.2)
    orders = ledger.report(gateway.report(), 1.5)
    assert not orders.start and not orders.move
    keep_up(ledger, 30.0)
    assert [place.machine for place, _ in ledger.report(gateway.report(), 30.0).start] == [first.machine]

    ledger.see(MACHINES[:1])
    ledger.host_died(greet("r2", 31.0).host, 32.0)
    assert greet("r3", 32.1).machine == MACHINES[0].name, "there is no other"


def test_a_model_that_does_not_start_is_tried_once_on_each_machine() -> None:
    ledger = FleetLedger(FleetRules())
    ledger.see(MACHINES[:2])

    def greet(robot: str, now_s: float) -> Place | Elsewhere | Refusal:
        return ledger.admit(asked(robot, "g0"), now_s)

    tried = []
    for now_s in (0.0, 1.0):
        place = greet("r0", now_s)
        assert isinstance(place, Place)
        tried.append(place.machine)
        ledger.end_host(place.host, now_s, "it has no such model")
        ledger.leave("r0", "g0")  # as its robot is refused
    assert sorted(tried) == [machine.name for machine in MACHINES[:2]]
    assert greet("r0", 2.0) == Refusal(reason="it has no such model")
    assert not ledger.state.doubted and not ledger.state.counts["lost"]
    assert isinstance(greet("r1", 2.0), Place), "another model is not concerned"
    keep_up(ledger, 62.0)
    assert isinstance(greet("r0", 62.0), Place), "it may have been mended"


def test_a_model_that_does_not_start_anew_is_not_prepared_but_still_found_where_it_runs() -> None:
    ledger, gateway = FleetLedger(FleetRules()), Gateway("g0")
    ledger.see(MACHINES[:2])
    place = ledger.admit(asked("r0", "g0"), 0.0)
    assert isinstance(place, Place)
    gateway.start(place, demand_of("r0").network)
    gateway.sessions["r0"] = place.host
    ledger.report(gateway.report(), 0.5)
    keep_up(ledger, 0.5)
    ((standby, _),) = ledger.report(gateway.report(), 1.0).start
    ledger.end_host(standby.host, 1.0, "it has no such model")
    keep_up(ledger, 1.5)
    assert not ledger.report(gateway.report(), 1.5).start
    assert ledger.admit(asked("r0", "g0"), 2.0) == replace(
        place, is_new=False, is_ready=True, memory_bytes=0.0, cores=0.0
    )


def test_an_order_to_stop_is_given_until_it_is_followed() -> None:
    ledger, gateway = FleetLedger(FleetRules(standby=False, idle_s=2.0)), Gateway("g0")
    ledger.see(MACHINES[:1])
    place = ledger.admit(asked("r0", "g0"), 0.0)
    assert isinstance(place, Place)
    gateway.start(place, demand_of("r0").network)
    ledger.report(gateway.report(), 0.5)
    ledger.leave("r0", "g0")
    keep_up(ledger, 5.0)
    for now_s in (5.5, 6.0):  # the first answer is lost
        assert ledger.report(gateway.report(), now_s).stop == (place.host,)
    gateway.hosts.clear()
    assert not ledger.report(gateway.report(), 6.5).stop


def test_a_move_that_nobody_was_told_of_is_given_up() -> None:
    """Its target runs, and nothing is to become empty: it would count on the wrong machine for ever."""
    ledger, gateway = FleetLedger(FleetRules(standby=False, idle_s=1000.0)), Gateway("g0")
    ledger.see(MACHINES[:2])
    for robot in ("r0", "r2"):
        place = ledger.admit(asked(robot, "g0"), 0.0)
        assert isinstance(place, Place)
        gateway.start(place, "a")
        gateway.sessions[robot] = place.host
    ledger.report(gateway.report(), 0.5)
    session = ledger.state.sessions["r0"]
    session.target, session.ordered_s = gateway.sessions["r2"], 1.0
    keep_up(ledger, 1.0 + START_S / 2)
    assert session.target
    keep_up(ledger, 1.0 + START_S)
    assert not session.target
    ledger.report(gateway.report(), 1.5 + START_S)
    assert session.host == gateway.sessions["r0"]


def test_a_new_ledger_is_told_which_machines_are_to_become_empty() -> None:
    ledger = FleetLedger(FleetRules())
    ledger.see(MACHINES)
    ledger.drain("m1")
    told = ledger.report(GatewayReport(gateway="g0"), 0.0).draining
    assert told == {"m1"}
    new = FleetLedger(FleetRules())
    new.see(MACHINES)
    assert new.report(GatewayReport(gateway="g0", draining=told), 10.0).draining == {"m1"}
    new.undrain("m1")
    assert not new.report(GatewayReport(gateway="g0", draining=told), 10.5).draining, "the user's word counts"


def test_sessions_that_cannot_be_evened_out_stay_where_they_are() -> None:
    """Three of 0.3 of a machine on two machines: whichever of the two that has two gives one away has less than it."""
    ledger, gateway = FleetLedger(FleetRules(standby=False, idle_s=1000.0)), Gateway("g0")
    ledger.see(MACHINES[:2])
    demand = Demand(network="a", mean_ms=30.0, worst_ms=35.0, period_ms=50.0, deadline_ms=300.0, memory_bytes=1e8)
    for robot in ROBOTS[:3]:
        place = ledger.admit(replace(asked(robot, "g0"), network="a", predicted=demand), 0.0)
        assert isinstance(place, Place)
        gateway.start(place, "a")
        gateway.sessions[robot] = place.host
    moved = 0
    for step in range(40):
        sessions: dict[str, tuple[str, Demand | None]] = {name: (at, demand) for name, at in gateway.sessions.items()}
        keep_up(ledger, step / 4)
        orders = ledger.report(GatewayReport(gateway="g0", hosts=dict(gateway.hosts), sessions=sessions), step / 4)
        for robot, place in orders.move:
            gateway.start(place, "a")
            gateway.sessions[robot] = place.host
            moved += 1
    assert moved <= 1  # where all three began on one machine
    assert len({gateway.hosts[host].machine for host in gateway.sessions.values()}) == 2


def test_a_process_that_was_never_started_says_nothing_against_its_machine() -> None:
    ledger = FleetLedger(FleetRules())
    ledger.see(MACHINES[:1])
    place = ledger.admit(asked("r0", "g0"), 0.0)
    assert isinstance(place, Place)
    ledger.report(GatewayReport(gateway="g0"), START_S + 1.0)
    assert place.host not in ledger.state.hosts and not ledger.state.doubted


def test_gateways_whose_words_were_not_heard_are_learnt_again() -> None:
    """The ledger stands still or is out of reach for a minute, while frames go on between gateways and processes."""
    ledger = FleetLedger(FleetRules(standby=False))
    ledger.see(MACHINES[:2])
    gateways = [Gateway(name) for name in GATEWAYS]
    for gateway, robot in zip(gateways, ("r0", "r3"), strict=True):
        ledger.report(gateway.report(), 0.0)
        place = ledger.admit(asked(robot, gateway.name), 0.0)
        assert isinstance(place, Place)
        gateway.start(place, demand_of(robot).network)
        gateway.sessions[robot] = place.host
    hosts = {host for gateway in gateways for host in gateway.hosts}

    def report(now_s: float, *reporting: Gateway) -> None:
        for gateway in reporting:
            assert not ledger.report(gateway.report(), now_s).stop

    report(1.0, *gateways)
    for now_s in (61.0, 62.0):
        report(now_s, gateways[0])
    assert set(ledger.state.hosts) == hosts, "the other one may just be about to report"
    for step in range(10):
        report(63.0 + step, gateways[0])
    assert set(ledger.state.gateways) == {gateways[0].name} and set(ledger.state.hosts) == set(gateways[0].hosts)
    report(80.0, *gateways)
    assert set(ledger.state.hosts) == hosts and set(ledger.state.sessions) == {"r0", "r3"}
    assert all(load.busy for load in ledger.state.loads)
