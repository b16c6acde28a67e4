# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The regular upkeep of a fleet: collects orders for all gateways, beside finding places for sessions.

Sessions leave machines that cannot keep their promises, or that are to become empty; a model that has sessions on only
one machine is loaded on another one, so that the sessions go on at once if the first is lost; processes that nobody
needs end.
"""

from __future__ import annotations

from collections import defaultdict

from cacheinf_ros.fleet.fleet_state import START_S
from cacheinf_ros.fleet.ledger import FleetLedger
from cacheinf_ros.fleet.machine_choice import MachineLoad, best_machine, objection
from cacheinf_ros.fleet.messages import Orders, Place

_UNEVEN = 0.25  # difference between two machines' busy shares above which a session moves from one to the other
_GAIN = 0.05  # least by which the machine that takes it is then less busy than the other was
_MOVES_AT_ONCE = 1  # planned moves per machine that takes sessions: starting a process slows those that compute


def keep_up(ledger: FleetLedger, now_s: float) -> None:
    """Decide what is to be done, and leave the orders for the gateways' next reports."""
    doubted = ledger.state.doubted
    ledger.state.doubted = {machine: until_s for machine, until_s in doubted.items() if until_s > now_s}
    failures = ledger.state.failures
    ledger.state.failures = {at: failure for at, failure in failures.items() if failure.until_s > now_s}
    _shed(ledger)
    shed, move = _shed_orders(ledger), _moves(ledger, now_s)
    start, stop = _standbys(ledger, now_s), _idle(ledger, now_s)
    for gateway in {*shed, *move, *start, *stop}:
        earlier = ledger.state.orders.get(gateway, Orders())
        ledger.state.orders[gateway] = Orders(
            start=(*earlier.start, *start[gateway]),
            stop=(*earlier.stop, *stop[gateway]),
            move=(*earlier.move, *move[gateway]),
            shed=(*earlier.shed, *shed[gateway]),
        )


def _shed(ledger: FleetLedger) -> None:
    """Mark the latest sessions of lowest priority to be shed where, by measurements, a machine cannot keep promises."""
    for load in ledger.state.loads:
        complaint = objection(load, ledger.state.rules)
        if not complaint:
            continue
        name = load.machine.name
        there = sorted(
            (
                each
                for each in ledger.state.sessions.values()
                if ledger.state.machine_of(each) == name and not each.shed
            ),
            key=lambda each: (-each.demand.priority, each.since_s),
        )
        while len(there) > 1 and complaint:
            there.pop().shed = f"the fleet has no room any more: {complaint}"
            left = tuple(each.demand for each in there)
            complaint = objection(
                MachineLoad(machine=load.machine, demands=left, networks=load.networks, hosts=load.hosts),
                ledger.state.rules,
            )


def _shed_orders(ledger: FleetLedger) -> dict[str, list[tuple[str, str]]]:
    orders: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for name in [name for name, each in ledger.state.sessions.items() if each.shed]:
        session = ledger.state.sessions.pop(name)
        ledger.state.counts["shed"] += 1
        orders[session.gateway].append((name, session.shed))
    return orders


def _moves(ledger: FleetLedger, now_s: float) -> dict[str, list[tuple[str, Place]]]:
    """Order sessions away from machines that are to become empty; a move that did not happen is ordered again."""
    orders: dict[str, list[tuple[str, Place]]] = defaultdict(list)
    for session in ledger.state.sessions.values():
        if session.target and now_s - session.ordered_s >= START_S:
            session.target = ""  # the order was lost, or could not be carried out
    most = _MOVES_AT_ONCE * len(ledger.state.loads)
    moving = sum(session.target in ledger.state.hosts for session in ledger.state.sessions.values())
    for name, session in ledger.state.sessions.items() if ledger.state.draining else ():
        host = ledger.state.hosts.get(session.host)
        if host is None or host.machine not in ledger.state.draining:
            continue
        if session.target in ledger.state.hosts or moving >= most:
            continue
        place = ledger.find(session.demand, session.gateway, now_s)
        if isinstance(place, Place):
            session.target, session.ordered_s, moving = place.host, now_s, moving + 1
            orders[session.gateway].append((name, place))
    if not any(session.target for session in ledger.state.sessions.values()):
        _even_out(ledger, now_s, orders)
    return orders


def _even_out(ledger: FleetLedger, now_s: float, orders: dict[str, list[tuple[str, Place]]]) -> None:
    """Move one session from the busiest machine to the least busy one, such as a repaired one, where that pays."""
    loads = sorted(ledger.state.loads, key=lambda load: load.busy)
    if len(loads) < 2 or len(loads[-1].demands) < 2 or loads[-1].busy - loads[0].busy < _UNEVEN:
        return
    busiest = loads[-1].machine.name
    there = [
        (each.demand.cores, name)
        for name, each in ledger.state.sessions.items()
        if ledger.state.machine_of(each) == busiest
    ]
    cores, name = min(there)
    session = ledger.state.sessions[name]
    best = best_machine(ledger.state.loads_for(session.demand.network), session.demand, ledger.state.rules)
    if not isinstance(best, MachineLoad) or best.busy + cores / best.machine.cores + _GAIN > loads[-1].busy:
        return  # it would be as busy as the other is now, and the session would move back
    place = ledger.find(session.demand, session.gateway, now_s)
    if isinstance(place, Place) and place.machine != busiest:
        session.target, session.ordered_s = place.host, now_s
        orders[session.gateway].append((name, place))


def _standbys(ledger: FleetLedger, now_s: float) -> dict[str, list[tuple[Place, str]]]:
    """Order a process on a second machine for each model whose sessions are on only one."""
    orders: dict[str, list[tuple[Place, str]]] = defaultdict(list)
    if not ledger.state.rules.standby:
        return orders
    used = {each.demand.network: each for each in ledger.state.sessions.values()}
    for network, session in used.items():
        have = {host.machine for host in ledger.state.hosts.values() if host.network == network} - ledger.state.draining
        others = [load for load in ledger.state.loads_for(network) if load.machine.name not in have]
        machine = best_machine(others, session.demand, ledger.state.rules) if len(have) == 1 and others else ""
        if isinstance(machine, MachineLoad):
            place = ledger.new_host(machine.machine.name, session.demand, session.gateway, now_s)
            orders[session.gateway].append((place, network))
    return orders


def _idle(ledger: FleetLedger, now_s: float) -> dict[str, list[str]]:
    """End processes that have no sessions and are not needed as standbys."""
    orders: dict[str, list[str]] = defaultdict(list)
    counts = ledger.state.counted
    for name, host in list(ledger.state.hosts.items()):
        if counts[name]:
            host.idle_s = now_s
            continue
        patience_s = 0.0 if host.machine in ledger.state.draining else ledger.state.rules.idle_s
        if host.is_seen and now_s - host.idle_s >= patience_s and not _stands_by(ledger, name):
            ledger.end_host(name, now_s)
            orders[host.gateway].append(name)
    return orders


def _stands_by(ledger: FleetLedger, name: str) -> bool:
    """Tell whether, without this process, a model in use would be loaded on only one machine."""
    host = ledger.state.hosts[name]
    if not ledger.state.rules.standby or host.machine in ledger.state.draining:
        return False
    is_used = any(each.demand.network == host.network for each in ledger.state.sessions.values())
    others = [
        each.machine
        for other, each in ledger.state.hosts.items()
        if other != name and each.network == host.network and each.machine not in ledger.state.draining
    ]
    return is_used and len(set(others)) <= 1 and host.machine not in others
