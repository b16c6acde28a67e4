# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Tests of where sessions are placed, and that no robot is promised what cannot be kept."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from cacheinf_ros.fleet.demand import Demand, DemandMeter
from cacheinf_ros.fleet.machine_choice import (
    FleetRules,
    Machine,
    MachineLoad,
    best_machine,
    busy_share,
    is_hopeless,
    objection,
    p95_ms,
    waiting_ms,
)

RULES = FleetRules()


@st.composite
def demands(draw: st.DrawFn) -> Demand:
    mean_ms = draw(st.floats(0.1, 200.0))
    return Demand(
        network=draw(st.sampled_from("ab")), mean_ms=mean_ms, worst_ms=mean_ms * draw(st.floats(1.0, 5.0)),
        period_ms=draw(st.floats(20.0, 2000.0)), deadline_ms=draw(st.floats(50.0, 1000.0)),
        memory_bytes=draw(st.floats(0.0, 1e9)), priority=draw(st.integers(-2, 2)),
    )  # fmt: skip


machines = st.builds(
    Machine, name=st.sampled_from([f"m{i}" for i in range(100)]), cores=st.sampled_from([1.0, 2.0, 8.0]),
    memory_bytes=st.sampled_from([2e9, 64e9]),
)  # fmt: skip
loads = st.builds(
    MachineLoad, machine=machines, demands=st.lists(demands(), max_size=6).map(tuple),
    networks=st.frozensets(st.sampled_from("ab")), hosts=st.integers(0, 6),
)  # fmt: skip


@given(st.lists(loads, max_size=5, unique_by=lambda load: load.machine.name), demands())
def test_a_place_keeps_all_promises_or_there_is_none(found: list[MachineLoad], demand: Demand) -> None:
    best = best_machine(found, demand, RULES)
    fitting = [load for load in found if not objection(load.joined_by(demand), RULES)]
    if isinstance(best, str):
        assert best and (not fitting or is_hopeless(demand, RULES))
        return
    joined = best.joined_by(demand)
    assert best in fitting
    assert joined.busy <= RULES.most_busy
    assert not is_hopeless(demand, RULES)
    for each in joined.demands:
        assert p95_ms(joined, each) <= RULES.margin * each.deadline_ms or is_hopeless(each, RULES)
    loading_ms = 0.1 * RULES.load_ms
    assert all(p95_ms(joined, demand) <= p95_ms(load.joined_by(demand), demand) + loading_ms + 0.01 for load in fitting)


@given(loads, demands())
def test_more_work_waits_no_shorter(load: MachineLoad, demand: Demand) -> None:
    alike = Demand(
        network=demand.network, mean_ms=demand.mean_ms, worst_ms=demand.worst_ms, period_ms=demand.period_ms,
        deadline_ms=demand.deadline_ms,
    )  # fmt: skip
    one, two = (MachineLoad(machine=load.machine, demands=(alike,) * count) for count in (1, 2))
    assert 0 <= waiting_ms(one) <= waiting_ms(two)
    assert (waiting_ms(two) == math.inf) == (two.busy >= 1)


@given(st.lists(st.floats(0.1, 50.0), min_size=6, max_size=60), st.floats(20.0, 500.0))
def test_measurements_take_the_place_of_predictions(took_ms: list[float], period_ms: float) -> None:
    meter = DemandMeter()
    predicted = Demand(network="a", mean_ms=1.0, worst_ms=2.0, period_ms=7.0, deadline_ms=100.0, priority=3)
    assert meter.measured(predicted, 0.0) is predicted
    for number, each in enumerate(took_ms):
        meter.start(number * period_ms / 1e3)
        meter.done(each)
    last_s = (len(took_ms) - 1) * period_ms / 1e3
    found = meter.measured(predicted, last_s)
    assert min(took_ms) * 0.999 <= found.mean_ms <= max(took_ms) * 1.001
    assert found.mean_ms <= found.worst_ms * 1.001 or found.worst_ms <= max(took_ms)
    assert abs(found.period_ms - period_ms) < 1e-6 * period_ms + 1e-3
    assert (found.priority, found.deadline_ms) == (3, 100.0)
    assert meter.measured(predicted, last_s + 4.9) == found, "answers are held, or computed alone, for seconds"
    assert meter.measured(predicted, last_s + 3600.0).cores < 0.01, "a robot that has stopped keeps nothing busy"


def test_a_session_that_nothing_can_help_harms_no_other() -> None:
    """One robot with frames of 170 ms, of 160 that are allowed, had the others sent away, and newcomers refused."""
    slow, quick = (
        Demand(network="a", mean_ms=took, worst_ms=took, period_ms=1000.0, deadline_ms=200.0) for took in (170.0, 10.0)
    )
    machine = Machine(name="m", cores=8.0, memory_bytes=64e9)
    load = MachineLoad(machine=machine, demands=(slow, quick))
    assert not objection(load, RULES)
    assert best_machine([load], quick, RULES) is load
    found = best_machine([MachineLoad(machine=machine, demands=())], slow, RULES)
    assert found == "one frame in twenty would take 170 ms, of 160, on any machine"


@given(st.lists(loads, max_size=5), demands())
def test_a_fleet_is_the_busier_the_more_it_has_promised(found: list[MachineLoad], demand: Demand) -> None:
    before = busy_share(found, RULES)
    assert 0.0 <= before <= 1.0
    if found:
        assert busy_share([found[0].joined_by(demand), *found[1:]], RULES) >= before - 1e-9
    else:
        assert before == 1.0, "nothing can be promised"
