# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""A robot's session and a server's in one process, and the link between them."""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from cacheinf_ros.engine import Caching, Engine, EngineConfig, Mode, PartitionWorker
from cacheinf_ros.engine.cost.model import POINTS
from cacheinf_ros.errors import MessageError
from cacheinf_ros.graph import Model
from cacheinf_ros.offload.protocol.frames import OffloadConfig
from cacheinf_ros.offload.protocol.greeting import Identity, Work
from cacheinf_ros.offload.protocol.link_faults import Faults
from cacheinf_ros.offload.protocol.packets import Packet
from cacheinf_ros.offload.protocol.robot_session import RobotSession
from cacheinf_ros.offload.protocol.row_service import RowWorker
from cacheinf_ros.offload.protocol.row_session import RowSession
from cacheinf_ros.offload.protocol.schedule_service import Find, find_nothing
from cacheinf_ros.offload.protocol.server_session import ServerSession, Worker

ENGINE = EngineConfig(mode=Mode.EXACT, dense_fallback=False, threads=1)
OFFLOAD = OffloadConfig(server_deadline_ms=1000.0, probe_s=0.05)
PATIENCE_S = 20.0


class ServerBeside(ABC):
    """A server's session with a thread of its own in this process, and the faulty link to a robot's session."""

    robot: RobotSession
    faults: Faults
    complaints: list[str]

    def start_server(self) -> None:
        self.server = ServerSession("robot", self._worker, self._to_robot, self.complaints.append)
        self.thread = threading.Thread(target=self.server.serve)
        self.thread.start()

    def stop_server(self) -> None:
        self.server.close()
        self.thread.join(PATIENCE_S)
        assert not self.thread.is_alive()

    @abstractmethod
    def _worker(self, asked: Identity, work: Work) -> Worker: ...

    def _to_server(self, packet: Packet) -> None:
        for arrived in self.faults(packet, "server"):
            self.server.receive(arrived)

    def _to_robot(self, packet: Packet) -> None:
        for arrived in self.faults(packet, "robot"):
            self.robot.receive(arrived)


class Both(ServerBeside):
    """A robot's session and a server's in one process."""

    def __init__(
        self,
        model: Model,
        faults: Faults | None = None,
        config: OffloadConfig = OFFLOAD,
        caching: Caching | None = None,
        engine: EngineConfig = ENGINE,
    ) -> None:
        self._model, self._identity, self.size = model, Identity.of(model), model.input_size
        self.server_engine = engine
        self.faults = faults or Faults(0, 0.0, ("lost",))
        self.complaints: list[str] = []
        self.profile: list[list[float]] | None = None  # the operators' times that the server states; None: made-up ones
        self.find: Find = find_nothing  # how it replies to requests for schedules
        self.engine = Engine(model, engine, caching, with_server=True)
        assert self.engine.shared is not None
        self.robot = RowSession("robot", self._identity, self.engine.shared.space, config, self._to_server)
        self.start_server()

    def connect(self) -> None:
        until(lambda: not self.robot.complaint, self.robot.poll)

    def _worker(self, asked: Identity, work: Work) -> RowWorker:
        assert work is Work.ROWS
        if asked.network != self._identity.network:
            raise MessageError("start both with the same model")
        helper = PartitionWorker(self._model, self.server_engine, asked.dropped)
        profile = [list(POINTS) for _ in helper.space.heights] if self.profile is None else self.profile
        return RowWorker(helper, profile, lambda session, question: self.find(session, question))


def until(
    holds: Callable[[], bool], meanwhile: Callable[[], None] = lambda: None, patience_s: float = PATIENCE_S
) -> None:
    deadline = time.monotonic() + patience_s
    while not holds():
        assert time.monotonic() < deadline
        meanwhile()
        time.sleep(0.005)


@contextmanager
def both(
    model: Model,
    faults: Faults | None = None,
    config: OffloadConfig = OFFLOAD,
    caching: Caching | None = None,
    engine: EngineConfig = ENGINE,
) -> Iterator[Both]:
    sessions = Both(model, faults, config, caching, engine)
    try:
        yield sessions
    finally:
        sessions.stop_server()
