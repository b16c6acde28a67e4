# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Whatever comes in the name of a robot's session, the robot is heard, and a failing session says so."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from sessions import until

from cacheinf_ros.fleet import route
from cacheinf_ros.fleet.demand import Demand
from cacheinf_ros.fleet.frame_stream import Listening
from cacheinf_ros.fleet.messages import Place
from cacheinf_ros.fleet.packet_bytes import packet_bytes
from cacheinf_ros.fleet.relay import RelaySession
from cacheinf_ros.fleet.start_error import StartError
from cacheinf_ros.offload import Packet
from cacheinf_ros.offload.protocol.greeting import PROTOCOL, Hello, Welcome, Work, written
from cacheinf_ros.offload.protocol.packets import Kind, cut
from cacheinf_ros.pipeline.polling import wait_until

LAST_EPOCH = 2**32 - 1
HELLO = written(
    Hello(
        protocol=PROTOCOL, model="tiny", network="network", dropped=[], levels="", work=Work.ROWS, wire_type="float32",
        compress=False, patience_ms=100.0, priority=0,
    )
)  # fmt: skip
WELCOME = written(Welcome(protocol=PROTOCOL, instance="process", profile=[[1.0, 1.0]]))


def packet(epoch: int, kind: Kind, content: bytes = b"") -> Packet:
    (made,) = cut(content, session="robot", epoch=epoch, kind=kind)
    return made


class Stream:
    """A replacement of :class:`.frame_stream.PacketStream` that checks that packets can be sent."""

    def __init__(self, listening: Listening) -> None:
        self.listening = listening
        self.sent: list[tuple[int, int]] = []  # kind and epoch
        self.is_open = True

    def start(self) -> None:
        pass

    def send(self, sent: Packet) -> None:
        packet_bytes(sent)
        self.sent.append((sent.kind, sent.epoch))
        if sent.kind == Kind.HELLO:
            self.listening.receive(packet(sent.epoch, Kind.WELCOME, WELCOME))

    def close(self) -> None:
        self.is_open = False


class OneRobot:
    """A :class:`cacheinf_ros.fleet.placing.Fleet` of one robot, with that robot's session."""

    name = "gateway"

    def __init__(self) -> None:
        self.streams: list[Stream] = []
        self.lost: list[str] = []
        self.failure: Exception | None = None  # raised for whoever asks for a place
        self.start_failure: Exception | None = None  # raised for whoever opens one
        self.is_wanted: Callable[[], bool] | None = None  # of the process that is starting
        self.heard: list[Packet] = []
        self.complaints: list[str] = []
        self.session = RelaySession("robot", self, self.heard.append, self.complaints.append)
        threading.Thread(target=self.session.serve, daemon=True).start()

    def admit(self, session: str, hello: Hello) -> Place:
        if self.failure is not None:
            raise self.failure
        return Place(host=f"host{len(self.streams)}", machine="machine", gateway=self.name)

    def open(self, place: Place, hello: Hello, listening: Listening, is_wanted: Callable[[], bool]) -> Any:
        if self.start_failure is not None:
            raise self.start_failure
        if place.host == "slow":
            self.is_wanted = is_wanted
            until(lambda: not is_wanted())
            return None
        self.streams.append(Stream(listening))
        return self.streams[-1]

    def predicted(self, hello: Hello, welcome: Welcome) -> Demand:
        return Demand(
            network="network", mean_ms=1.0, worst_ms=1.0, period_ms=100.0, deadline_ms=100.0, memory_bytes=0.0
        )

    def lose(self, place: Place) -> None:
        self.lost.append(place.host)

    def leave(self, session: str) -> None:
        pass

    def count(self, what: str, by: float = 1) -> None:
        pass

    def greet(self, epoch: int) -> None:
        """Greet as the robot does, and wait until it is welcomed."""
        self.heard.clear()
        self.session.receive(packet(epoch, Kind.HELLO, HELLO))
        until(lambda: any((each.kind, each.epoch) == (Kind.WELCOME, epoch) for each in self.heard))

    def reaches_process(self, epoch: int, process: int) -> bool:
        """Tell whether a frame that begins in an epoch reaches one of the processes."""
        self.session.receive(packet(epoch, Kind.START))
        return (Kind.START, epoch) in self.streams[process].sent


@pytest.fixture
def fleet() -> Iterator[OneRobot]:
    made = OneRobot()
    yield made
    made.session.close()


def test_a_stray_packet_of_the_last_epoch_locks_nobody_out(fleet: OneRobot) -> None:
    fleet.greet(1)
    for kind in (Kind.START, Kind.ROWS, Kind.SEARCH):
        fleet.session.receive(packet(LAST_EPOCH, kind))
    assert fleet.reaches_process(1, 0)
    assert LAST_EPOCH not in {epoch for _, epoch in fleet.streams[0].sent}


@pytest.mark.parametrize("stray", [LAST_EPOCH, 7, 0])
def test_who_greets_in_the_robots_name_holds_it_up_until_it_greets_again(stray: int, fleet: OneRobot) -> None:
    """The process then says that the robot has started anew, so that it greets at once; or the robot was restarted."""
    fleet.greet(5)
    fleet.greet(stray)
    fleet.greet(6)
    assert fleet.reaches_process(6, 0)


def test_a_robot_follows_a_planned_move_without_greeting(fleet: OneRobot) -> None:
    fleet.greet(3)
    fleet.session.move(Place(host="new", machine="other", gateway="gateway"))
    until(lambda: any((each.kind, each.epoch) == (Kind.WELCOME, 4) for each in fleet.heard))
    assert not fleet.reaches_process(5, 0), "it was not welcomed to that"
    assert fleet.reaches_process(3, 0), "it may stay until its frame ends"
    assert fleet.reaches_process(4, 1)
    assert not fleet.streams[0].is_open


def test_sessions_move_and_end_in_the_last_epoch_that_packets_can_say(fleet: OneRobot) -> None:
    fleet.greet(LAST_EPOCH)
    fleet.session.move(Place(host="new", machine="other", gateway="gateway"))
    until(lambda: len(fleet.streams) == 2 and (Kind.HELLO, 0) in fleet.streams[1].sent)
    fleet.greet(8)
    assert fleet.reaches_process(8, 1)
    fleet.greet(LAST_EPOCH)
    fleet.session.shed("there is no room")
    until(lambda: any(each.kind == Kind.REFUSED for each in fleet.heard))
    for each in fleet.heard:
        packet_bytes(each)


def test_a_bug_ends_the_session_and_robot_and_operator_are_told(fleet: OneRobot) -> None:
    fleet.failure = RuntimeError("nobody has thought of this")
    fleet.session.receive(packet(1, Kind.HELLO, HELLO))
    until(lambda: not fleet.session.is_open)
    until(lambda: any(each.kind == Kind.REFUSED and b"see its log" in each.data for each in fleet.heard))
    (complaint,) = fleet.complaints
    assert "nobody has thought of this" in complaint and "Traceback" in complaint


def test_the_reason_for_which_a_process_is_given_up_is_told(fleet: OneRobot) -> None:
    fleet.greet(1)
    fleet.streams[0].listening.lost("its packets make no sense")
    until(lambda: fleet.lost == ["host0"])
    assert fleet.complaints == ["robot: host0: its packets make no sense"]


def test_a_robot_whose_process_cannot_start_is_refused_with_the_reason(fleet: OneRobot) -> None:
    fleet.start_failure = StartError("host0 could not start: it has no such model")
    fleet.session.receive(packet(1, Kind.HELLO, HELLO))
    until(lambda: any(each.kind == Kind.REFUSED and b"no such model" in each.data for each in fleet.heard))
    until(lambda: not fleet.session.is_open)
    assert fleet.complaints == ["robot: host0 could not start: it has no such model"]
    assert not fleet.lost, "its machine is not to blame"


def test_a_session_whose_new_process_cannot_start_stays_where_it_is(fleet: OneRobot) -> None:
    fleet.greet(3)
    fleet.start_failure = StartError("new could not start: it has no such model")
    fleet.session.move(Place(host="new", machine="other", gateway="gateway"))
    until(lambda: fleet.complaints == ["robot: new could not start: it has no such model"])
    assert fleet.reaches_process(3, 0)
    assert fleet.session.is_open and not fleet.lost


def test_a_machine_on_which_a_process_starts_for_nobody_any_more_is_not_to_blame(fleet: OneRobot) -> None:
    fleet.greet(3)
    fleet.session.move(Place(host="slow", machine="other", gateway="gateway"))
    until(lambda: fleet.is_wanted is not None)
    fleet.session.shed("there is no room")
    until(lambda: not fleet.session.is_open)
    assert not fleet.complaints and not fleet.lost


def test_a_process_that_lacks_parts_of_a_frame_is_not_to_blame_for_its_silence(
    fleet: OneRobot, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A robot's Wi-Fi was gone for three seconds, and the process that waited for the rest was ended."""
    monkeypatch.setattr(route, "_STALLED_S", 0.1)
    fleet.greet(1)
    first, *others = cut(bytes(1000), session="robot", epoch=1, kind=Kind.START, largest=250)
    for part in (first, *others[:-1]):
        fleet.session.receive(part)
    assert not wait_until(lambda: bool(fleet.lost), 1.0)
    fleet.session.receive(others[-1])
    until(lambda: fleet.lost == ["host0"])
