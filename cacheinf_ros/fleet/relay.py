# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""A gateway's end of a robot's session: relays packets to and from the process that computes it, wherever that is.

The robot holds the picture that the server's maps were computed from, so that a session moves without its maps: a new
process starts with the next epoch, whose first frame carries the picture. In a planned move, the robot is welcomed to
that epoch while the present one goes on, and follows between two frames. Where a process dies, the robot is told at
once, computes the current frame alone, greets, and finds the new process ready.
"""

from __future__ import annotations

import threading
import time
import traceback
from collections.abc import Callable

from cacheinf_ros.errors import CacheinfError, LinkError
from cacheinf_ros.fleet.demand import Demand
from cacheinf_ros.fleet.frame_stream import Listening
from cacheinf_ros.fleet.messages import Elsewhere, Place, Refusal
from cacheinf_ros.fleet.placing import Fleet
from cacheinf_ros.fleet.relayed_frames import RelayedFrames
from cacheinf_ros.fleet.route import Route
from cacheinf_ros.fleet.session_routes import SessionRoutes, epoch_after
from cacheinf_ros.fleet.start_error import StartError
from cacheinf_ros.offload import Packet
from cacheinf_ros.offload.protocol.greeting import Hello, read_hello, written
from cacheinf_ros.offload.protocol.packets import Channel, Kind, Send, cut
from cacheinf_ros.offload.protocol.transfer import Served

_TICK_S = 0.2
_SILENT_S = 10.0  # a silent robot is gone after so long, or has followed another gateway
_LEAST_S = 1.0  # time between two attempts to find a place
_BUG = "internal error of the gateway, see its log"


class RelaySession:
    """Relays a session, like :class:`~cacheinf_ros.offload.ServerSession`: one thread receives, another serves.

    Attributes:
        name: the session's name.
        frames: what its frames take.
    """

    def __init__(self, name: str, fleet: Fleet, send: Send, complain: Callable[[str], None]) -> None:
        """Begin without a place; ``send`` sends packets to the robot and must not wait."""
        self.name = name
        self._fleet = fleet
        self._send = send
        self._complain = complain
        self._changed = threading.Condition()
        self._hello: Hello | None = None
        self._greeting: Packet | None = None  # not answered yet
        self._routes = SessionRoutes()
        self._gone: list[Place] = []
        self._target: Place | None = None
        self._shed = ""
        self._not_before_s = 0.0
        self._heard_s = time.monotonic()
        self.frames = RelayedFrames()
        self._is_open = True

    @property
    def is_open(self) -> bool:
        """Whether the session serves, or will."""
        return self._is_open

    @property
    def busy_s(self) -> float:
        """The time that this process is busy: always 0, as another process computes the frames."""
        return 0.0

    @property
    def network(self) -> str:
        """The hash of the robot's model; empty: the robot has not sent it."""
        return self._hello.network if self._hello is not None else ""

    @property
    def state(self) -> tuple[str, Demand | None]:
        """The process that computes the session, empty: none; and the session's demand, where known."""
        with self._changed:
            route = self._routes.present
        return route.place.host if route else "", self.frames.demand

    def receive(self, packet: Packet) -> None:
        """Take a packet from the robot; damaged packets and those of other sessions are ignored."""
        if packet.session != self.name or not packet.is_sound:
            return
        with self._changed:
            self._heard_s = time.monotonic()
            if packet.kind == Kind.HELLO:
                self._greeting = packet
                self._changed.notify_all()
            if self._routes.enter(packet):
                self._follow()
            if packet.epoch != self._routes.epoch:
                return
            route = self._routes.present
            if route is None or route.stream is None:
                return
            if packet.kind == Kind.HELLO:
                self._greeting = None
            elif packet.kind == Kind.START:
                if packet.part == 0:
                    self.frames.begin()
                    self._fleet.count("frames")
                if packet.part == packet.parts - 1:  # it cannot answer before, however slow the robot's link is
                    route.waits_since_s = route.waits_since_s or time.monotonic()
            route.stream.send(packet)

    def serve(self) -> None:
        """Find places for the session whenever it needs one, until it ends."""
        try:
            while self._is_open:
                with self._changed:
                    self._changed.wait_for(self._has_work, _TICK_S)
                if not self._is_open:
                    break
                self._tell_losses()
                if self._shed:
                    self._refuse(self._shed)
                elif self._is_placeless() and time.monotonic() >= self._not_before_s:
                    self._find_place()
                elif self._target is not None:
                    self._prepare_move()
                self._look()
        except CacheinfError as error:
            self._complain(f"{self.name}: {error}")
            self._refuse(str(error))
        except Exception:  # a bug; the robot's next greeting starts a fresh session
            self._complain(f"{self.name}: {traceback.format_exc()}")
            self._refuse(_BUG)
        finally:
            self.close()
            self._fleet.leave(self.name)

    def move(self, place: Place) -> None:
        """Move to another process without losing a frame."""
        with self._changed:
            if not self._routes.lead_to(place.host):
                self._target = place
                self._changed.notify_all()

    def shed(self, reason: str) -> None:
        """End the session, as there is no more room for it."""
        with self._changed:
            self._shed = reason
            self._changed.notify_all()

    def close(self) -> None:
        """Let :meth:`serve` return, and tell the robot."""
        with self._changed:
            was_open, self._is_open = self._is_open, False
            routes = self._routes.take_all()
            self._changed.notify_all()
        for route in routes:
            route.close()
        if was_open and routes:
            self._fail("the server ends")

    def _has_work(self) -> bool:
        is_due = time.monotonic() >= self._not_before_s
        wanted = self._gone or self._shed or self._target or not self._is_open
        return bool(wanted or (self._is_placeless() and is_due))

    def _is_placeless(self) -> bool:
        return self._routes.present is None and (self._greeting is not None or self._hello is not None)

    def _follow(self) -> None:
        """Switch to the process that is ready as soon as the robot is in another epoch."""
        routes = self._routes
        if routes.can_follow:
            old = routes.follow()
            self._fleet.count("moves")
            if old is not None:
                old.close()
        elif routes.coming is not None:  # the robot has started anew by itself, before the new process is ready
            self._greet(routes.coming)

    def _find_place(self) -> None:
        self._not_before_s = time.monotonic() + _LEAST_S
        with self._changed:
            greeting = self._greeting
        hello = self._hello = read_hello(greeting.data) if greeting is not None else self._hello
        assert hello is not None
        answer = self._fleet.admit(self.name, hello)
        if isinstance(answer, Elsewhere):
            self._is_open = False
        elif isinstance(answer, Refusal):
            if greeting is not None:
                self._refuse(answer.reason)
        else:
            route = Route(place=answer, epoch=0)
            if self._connect(route, hello, lambda: self._is_open and not self._shed):
                self._use(route)

    def _use(self, route: Route) -> None:
        with self._changed:
            if not self._is_open:
                route.close()
            if not self._is_open or route.is_lost:
                return
            self._routes.present = route
            greeting, self._greeting = self._greeting, None
        assert route.stream is not None
        if greeting is not None:
            route.stream.send(greeting)
        else:  # the robot has not greeted yet, but the process can prepare
            self._greet(route)

    def _prepare_move(self) -> None:
        with self._changed:
            place, self._target = self._target, None
            hello = self._hello
        if place is None or hello is None or self._routes.present is None:
            return
        route = Route(place=place, epoch=self._routes.next_epoch)

        def is_wanted() -> bool:
            return self._is_open and not self._shed and self._routes.present is not None

        try:
            if not self._connect(route, hello, is_wanted):
                return
        except StartError as error:  # the session stays where it is
            self._complain(f"{self.name}: {error}")
            return
        with self._changed:
            if not route.is_lost:
                self._routes.coming = route
                self._greet(route)

    def _connect(self, route: Route, hello: Hello, is_wanted: Callable[[], bool]) -> bool:
        """Open the connection to a process, as long as it is wanted; returns whether that succeeded.

        Raises:
            StartError: the process could not start.
        """
        listening = Listening(
            receive=lambda packet: self._from_process(route, packet), lost=lambda reason: self._lost(route, reason)
        )
        try:
            stream = self._fleet.open(route.place, hello, listening, is_wanted)
        except LinkError as error:
            self._complain(f"{self.name}: {error}")
            self._fleet.lose(route.place)
            self._not_before_s = 0.0
            return False
        if stream is None:
            return False
        route.stream = stream
        stream.start()
        return True

    def _greet(self, route: Route) -> None:
        """Let a process prepare for the epoch that the robot has not entered yet."""
        assert self._hello is not None
        route.greet(self._hello, self.name, self._routes.next_epoch)

    def _from_process(self, route: Route, packet: Packet) -> None:
        with self._changed:
            route.waits_since_s = None
            if packet.kind == Kind.WELCOME:
                self._hear_welcome(route, packet)
                return
            if route is not self._routes.present:
                return
            served = Served.decode(packet.data) if packet.kind == Kind.DONE else None
            if served is not None:
                self.frames.end(served)
                self._fleet.count("busy_ms", served.busy_ms)
            elif packet.kind == Kind.REFUSED:
                self._is_open = False
        self._send(packet)

    def _hear_welcome(self, route: Route, packet: Packet) -> None:
        """Relay a welcome with the gateway's name in it, and learn how long frames take the process."""
        welcome = route.hear_welcome(packet)
        if welcome is None or self._hello is None:
            return
        named = written(welcome.model_copy(update={"server": self._fleet.name}))
        packets = list(cut(named, session=self.name, epoch=packet.epoch, kind=Kind.WELCOME))
        self.frames.predicted = self._fleet.predicted(self._hello, welcome)
        if route is self._routes.coming and packet.epoch == route.epoch:
            route.welcome, route.said_s = packets, time.monotonic()
        if route in self._routes.all:
            for each in packets:
                self._send(each)

    def _lost(self, route: Route, reason: str = "") -> None:
        """Handle the loss of a process, which is gone or given up for a reason; the robot is told at once."""
        if reason:
            self._complain(f"{self.name}: {route.place.host}: {reason}")
        with self._changed:
            route.is_lost = True
            if not self._is_open:
                return
            self._gone.append(route.place)
            self._changed.notify_all()
            if not self._routes.lose(route):
                return
            self._not_before_s = 0.0
        self._fleet.count("losses")
        self._fail("the machine that computed it is lost, another one takes over")

    def _tell_losses(self) -> None:
        with self._changed:
            gone, self._gone = self._gone, []
        for place in gone:
            self._fleet.lose(place)

    def _look(self) -> None:
        """Repeat a welcome that the robot has not followed; give up a silent process or robot."""
        now = time.monotonic()
        with self._changed:
            if now - self._heard_s > _SILENT_S:
                self._is_open = False  # silently, as a message would end the session that the robot may have elsewhere
            route, new = self._routes.present, self._routes.coming
            again = new.due_welcome(now) if new is not None else []
            is_stalled = route is not None and route.is_stalled(now)
        for packet in again:
            self._send(packet)
        if is_stalled and route is not None:
            route.close()
            self._lost(route)

    def _refuse(self, reason: str) -> None:
        """Refuse the session; a robot that has one is told first that it has failed, and then greets."""
        with self._changed:
            greeting, has_session = self._greeting, self._routes.present is not None
            epoch = self._routes.epoch if greeting is None else greeting.epoch
        self._fleet.count("refusals")
        if has_session:
            self._fail(reason)
            epoch = epoch_after(epoch)
        Channel(session=self.name, epoch=epoch, send=self._send).put(Kind.REFUSED, reason.encode())
        self._is_open = False

    def _fail(self, reason: str) -> None:
        self.frames.give_up()
        Channel(session=self.name, epoch=self._routes.epoch, send=self._send).put(Kind.FAILED, reason.encode())
