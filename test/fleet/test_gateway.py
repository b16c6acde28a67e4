# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""A gateway keeps reporting to its ledger whatever happens, and tells processes that cannot start from lost ones."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping

import pytest
from fleets import MODEL, OneProcess, Rig
from sessions import ENGINE, until

from cacheinf_ros.catalog.serving.catalog_node_configs import CatalogServerConfig
from cacheinf_ros.errors import LinkError, MessageError
from cacheinf_ros.fleet import gateway
from cacheinf_ros.fleet.frame_stream import Listening
from cacheinf_ros.fleet.gateway import FleetGateway
from cacheinf_ros.fleet.host import HostSetting
from cacheinf_ros.fleet.messages import GatewayReport, Orders, Place
from cacheinf_ros.graph import Model, load_model
from cacheinf_ros.offload import Identity, Packet
from cacheinf_ros.offload.protocol.greeting import PROTOCOL, Hello, Welcome, Work, written
from cacheinf_ros.offload.protocol.packets import Kind, cut
from cacheinf_ros.pipeline.node_configs import ModelConfig


class Failing(OneProcess):
    """A cluster that fails once for each of these reasons, and complains from then on; metrics always fail."""

    def __init__(self, *failures: Exception) -> None:
        super().__init__(machines=1)
        self.failures = list(failures)
        self.reports = 0

    def report(self, report: GatewayReport) -> Orders:
        self.reports += 1
        if self.failures:
            raise self.failures.pop(0)
        return Orders(complaint="nobody looks after the machines")

    def show(self, shown: Mapping[str, float], gateway: str) -> None:
        raise LinkError("metrics cannot be shown")


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Failing, Rig]]:
    monkeypatch.setattr(gateway, "_REPORT_S", 0.02)
    cluster = Failing(LinkError("the ledger does not answer"), RuntimeError("nobody has thought of this"))
    rig = Rig(cluster, robots=0)
    yield cluster, rig
    rig.gateway.close()


def test_neither_a_ledger_that_is_away_nor_a_bug_ends_the_reports(failing: tuple[Failing, Rig]) -> None:
    cluster, rig = failing
    until(lambda: cluster.reports > 3)
    said = [complaint for complaint in rig.complaints if complaint != "metrics cannot be shown"]
    assert said[0] == "the ledger does not answer"
    assert "nobody has thought of this" in said[1] and "Traceback" in said[1]


def test_what_the_ledger_complains_of_is_told(failing: tuple[Failing, Rig]) -> None:
    _, rig = failing
    until(lambda: "nobody looks after the machines" in rig.complaints)


class Models:
    """A replacement of :class:`cacheinf_ros.catalog.serving.SplitModels` whose only model may be withdrawn."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.is_offered = True

    def find(self, asked: Identity) -> Model:
        if not self.is_offered:
            raise MessageError("start both with the same model")
        return self.model


class Slow(OneProcess):
    """A cluster whose processes never begin to compute, and which keeps what it is told."""

    def __init__(self) -> None:
        super().__init__(machines=2)
        self.orders = Orders()
        self.calls: list[tuple[str, ...]] = []
        self.start_failures: list[Exception] = []

    def start(self, place: Place, setting: HostSetting) -> None:
        self.calls.append(("start", place.host))
        if self.start_failures:
            raise self.start_failures.pop(0)
        self.hosts[place.host] = place.machine, None

    def stop(self, host: str) -> None:
        self.calls.append(("stop", host))
        super().stop(host)

    def lose_host(self, host: str) -> None:
        self.calls.append(("lose", host))

    def end_host(self, host: str, failure: str = "") -> None:
        self.calls.append(("end", host, failure))
        super().end_host(host, failure)

    def report(self, report: GatewayReport) -> Orders:
        orders, self.orders = self.orders, Orders()
        return orders


class Station:
    """A gateway to a cluster, and what robots say to it."""

    def __init__(self, cluster: OneProcess, model: str = MODEL) -> None:
        loaded = load_model(MODEL)
        self.models = Models(loaded)
        self.hello = Hello(
            protocol=PROTOCOL, model="tiny", network=Identity.of(loaded).network, dropped=[], levels="",
            work=Work.ROWS, wire_type="float32", compress=False, patience_ms=1000.0, priority=0,
        )  # fmt: skip
        self.complaints: list[str] = []

        def make(asked: Identity) -> HostSetting:
            return HostSetting(
                asked=asked, model=ModelConfig(model=model), catalogs=CatalogServerConfig(), engine=ENGINE
            )

        self.gateway = FleetGateway(cluster, self.models, make, self.complaints.append)  # type: ignore[arg-type]

    def greet(self, name: str) -> list[Packet]:
        """Begin a session, wait for its end, and return what its robot has heard."""
        heard: list[Packet] = []
        session = self.gateway.session(name, heard.append, self.complaints.append)
        threading.Thread(target=session.serve, daemon=True).start()
        for each in cut(written(self.hello), session=name, epoch=1, kind=Kind.HELLO):
            session.receive(each)
        until(lambda: not session.is_open)
        until(lambda: any(each.kind == Kind.REFUSED for each in heard))
        return heard


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Slow, Station]]:
    monkeypatch.setattr(gateway, "_REPORT_S", 0.02)
    cluster = Slow()
    station = Station(cluster)
    yield cluster, station
    station.gateway.close()


def test_a_model_that_no_process_can_load_is_tried_once_on_each_machine_and_refused() -> None:
    cluster = OneProcess(machines=2)
    station = Station(cluster, model="nowhere.py:nothing")
    try:
        for number in range(4):
            refused = [each.data.decode() for each in station.greet(f"robot{number}") if each.kind == Kind.REFUSED]
            assert len(refused) == 1 and "nowhere.py" in refused[0]
        assert sorted(place.machine for place in cluster.started) == ["machine0", "machine1"]
        assert not cluster.ledger.state.doubted and not cluster.ledger.state.counts["lost"]
        until(lambda: not cluster.ledger.state.hosts)
    finally:
        station.gateway.close()


def test_a_withdrawn_model_is_refused_to_new_sessions_alone(slow: tuple[Slow, Station]) -> None:
    _, station = slow
    assert isinstance(station.gateway.admit("robot", station.hello), Place)
    session = station.gateway.session("robot", lambda packet: None, station.complaints.append)
    session.frames.predicted = station.gateway.predicted(
        station.hello, Welcome(protocol=PROTOCOL, instance="process", profile=[])
    )
    station.models.is_offered = False
    with pytest.raises(MessageError, match="the same model"):
        station.gateway.admit("other", station.hello)
    assert isinstance(station.gateway.admit("robot", station.hello), Place)


def test_a_process_that_nobody_waits_for_any_more_is_left_to_the_ledger(slow: tuple[Slow, Station]) -> None:
    cluster, station = slow
    place = station.gateway.admit("robot", station.hello)
    assert isinstance(place, Place) and place.is_new
    answers = iter((True, True, False))
    listening = Listening(receive=lambda packet: None, lost=lambda reason: None)
    assert station.gateway.open(place, station.hello, listening, lambda: next(answers)) is None
    assert cluster.calls == [("start", place.host)], "it may be another session's by now"
    cluster.calls.clear()
    elsewhere = Place(host="other_host", machine="machine1", gateway="other")
    assert station.gateway.open(elsewhere, station.hello, listening, lambda: False) is None
    assert not cluster.calls, "another gateway has started it"
    assert not station.complaints


def test_each_order_is_followed_whatever_becomes_of_the_others(slow: tuple[Slow, Station]) -> None:
    cluster, station = slow
    place = station.gateway.admit("robot", station.hello)
    assert isinstance(place, Place)
    cluster.start_failures = [LinkError("it cannot be started"), RuntimeError("nobody has thought of this")]
    places = [Place(host=f"host{number}", machine="machine0", gateway=station.gateway.name) for number in range(3)]
    network = station.hello.network
    cluster.orders = Orders(start=tuple((each, network) for each in places), stop=("old_host",))
    until(lambda: ("stop", "old_host") in cluster.calls)
    assert [call for call in cluster.calls if call[0] == "start"] == [("start", each.host) for each in places]
    assert ("end", "host0", "") in cluster.calls, "nothing is said of the model"
    assert station.complaints[0] == "it cannot be started"
    assert "nobody has thought of this" in station.complaints[1]
