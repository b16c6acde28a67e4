# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Robots without an engine: they send what a real one has sent, and record when each frame is done."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cacheinf_ros.cache_map import CacheMap, Motion
from cacheinf_ros.engine import Engine, EngineConfig, Mode, Outdated, Partition, PartitionWorker, Side
from cacheinf_ros.errors import LinkError
from cacheinf_ros.fleet.gateway import FleetGateway
from cacheinf_ros.graph import Model
from cacheinf_ros.offload import Identity, OffloadConfig, Packet, RowSession, RowWorker, ServerSession, Work
from cacheinf_ros.offload.protocol.greeting import PROTOCOL, Hello, written
from cacheinf_ros.offload.protocol.packets import Assembly, Channel, Kind, Send, cut, text_of
from cacheinf_ros.offload.protocol.transfer import Served
from cacheinf_ros.offload.row_workers import RowWorkers

_PATIENCE_S = 60.0
_AGAIN_S = 0.3
_QUIET_S = 1.0
_DEADLINE_MS = 5000.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """The START contents of a robot's frames: the first carries a whole picture, the others what has changed since."""

    starts: list[bytes]

    def of_frame(self, number: int) -> bytes:
        """Return the START content of a frame, numbered from 1; the recorded changes are repeated endlessly."""
        if number == 1:
            return self.starts[0]
        return self.starts[1 + (number - 2) % (len(self.starts) - 1)]


class InProcess:
    """A server's session in this process, with a thread of its own, as it is without a fleet."""

    def __init__(self, name: str, model: Model, config: EngineConfig, send: Send) -> None:
        def worker(asked: Identity, work: Work) -> RowWorker:
            partition = PartitionWorker(model, config)
            return RowWorkers().worker(asked, partition)

        self._session = ServerSession(name, worker, send, lambda complaint: None)
        self.receive = self._session.receive
        self.close = self._session.close
        threading.Thread(target=self._session.serve, daemon=True).start()


def record(model: Model, config: EngineConfig, frames: int, share: float, seed: int = 0) -> Recording:
    """Let a server in this process compute a real robot's frames, and record what the robot sends.

    Args:
        frames: number of frames.
        share: share of the blocks of 16 pixels that change from frame to frame, at random.
    """
    starts: dict[int, Assembly] = {}

    def send(packet: Packet) -> None:
        if packet.kind == Kind.START:
            starts.setdefault(packet.frame, Assembly(packet.parts)).add(packet)
        server.receive(packet)

    engine = Engine(model, config.changed(mode=Mode.EXACT), with_server=True)
    assert engine.shared is not None
    offload = OffloadConfig(server_deadline_ms=_DEADLINE_MS)
    robot = RowSession("recorded", Identity.of(model), engine.shared.space, offload, send)
    server = InProcess("recorded", model, config, robot.receive)
    _wait_for(lambda: not robot.complaint, robot.poll)
    partition = engine.shared.space.everything_at(Side.SERVER)
    rng = np.random.default_rng(seed)
    image, cache_map = _photograph(rng, model.input_size), None

    def choose(outdated: Outdated) -> Partition:
        return partition

    for _ in range(frames):
        engine.run(image, cache_map, robot.frame(choose))
        if not engine.shared.was_shared:
            raise LinkError(f"a frame was not shared: {engine.shared.complaint}")
        image, cache_map = _changed(image, share, rng)
    server.close()
    contents = [assembly.content for _, assembly in sorted(starts.items())]
    return Recording(starts=[content for content in contents if content is not None])


class ReplayedRobot:
    """A robot that sends a recording to a session, one frame at a time.

    Attributes:
        took_ms: time of each frame, from its start to the server's last packet.
        busy_ms: for each frame, how long a core of the server computed it, as the server states.
        late: number of frames that were not done within the patience.
        is_welcome: whether the server has welcomed the robot.
        ended: why there is no session, or no longer one; empty: it was neither refused nor ended.
    """

    def __init__(self, name: str, model: Identity, recording: Recording, deadline_ms: float = _DEADLINE_MS) -> None:
        """Prepare the robot; ``deadline_ms`` is the deadline that it claims to have."""
        self.name = name
        self.took_ms: list[float] = []
        self.busy_ms: list[float] = []
        self.late = 0
        self.session: Any = None
        self._recording = recording
        self._hello = Hello(
            protocol=PROTOCOL, model=model.model, network=model.network, work=Work.ROWS, wire_type="float32",
            compress=False, patience_ms=deadline_ms,
        )  # fmt: skip
        self._changed = threading.Condition()
        self._done: dict[int, tuple[float, float]] = {}
        self.is_welcome = False
        self.ended = ""
        self._frame = 0
        self._heard_s = 0.0

    def receive(self, packet: Packet) -> None:
        """Take a packet from the server."""
        with self._changed:
            self._heard_s = time.monotonic()
            if packet.kind == Kind.WELCOME:
                self.is_welcome = True
            elif packet.kind in (Kind.FAILED, Kind.REFUSED):
                self.ended = text_of(packet)
            elif packet.kind == Kind.DONE:
                served = Served.decode(packet.data)
                assert served is not None
                self._done[packet.frame] = time.perf_counter(), served.busy_ms
            self._changed.notify_all()

    def join(self, gateway: FleetGateway) -> float:
        """Ask to join a fleet, and return the seconds until the robot was welcomed or refused."""
        self.session = gateway.session(self.name, self.receive, lambda complaint: None)
        threading.Thread(target=self.session.serve, daemon=True).start()
        took_s = self.greet()
        threading.Thread(target=self._keep, daemon=True).start()
        return took_s

    def forget_times(self) -> None:
        """Forget the times of the frames so far."""
        self.took_ms.clear()
        self.busy_ms.clear()

    def leave(self) -> None:
        """End the session."""
        with self._changed:
            self.ended = self.ended or "it has left"
            self._changed.notify_all()
        self.session.close()

    def greet(self) -> float:
        """Greet the server until it welcomes or refuses the robot; return the seconds until then."""
        began = time.monotonic()

        def is_answered() -> bool:
            return self.is_welcome or bool(self.ended)

        def say() -> None:
            self._say_hello()
            with self._changed:
                self._changed.wait_for(is_answered, _AGAIN_S)

        _wait_for(is_answered, say)
        return time.monotonic() - began

    def _say_hello(self) -> None:
        for packet in cut(written(self._hello), session=self.name, epoch=1, kind=Kind.HELLO):
            self.session.receive(packet)

    def _keep(self) -> None:
        """Send a packet when nothing was heard for a while, as real robots do: silent ones lose their places."""
        while not self.ended:
            time.sleep(_QUIET_S)
            if time.monotonic() - self._heard_s > _QUIET_S:
                self._say_hello()

    def frame(self, patience_s: float = _PATIENCE_S) -> float:
        """Have the next frame computed, and return its milliseconds; infinite where it is not done in time."""
        self._frame += 1
        number = self._frame
        content = self._recording.of_frame(number)
        channel = Channel(session=self.name, epoch=1, send=self.session.receive)
        began = time.perf_counter()
        channel.put(Kind.START, content, number)
        with self._changed:
            self._changed.wait_for(lambda: number in self._done or self.ended, patience_s)
            if number not in self._done:
                self.late += 1
                return float("inf")
            ended, busy_ms = self._done.pop(number)
        took_ms = 1e3 * (ended - began)
        self.took_ms.append(took_ms)
        self.busy_ms.append(busy_ms)
        return took_ms

    def film(self, hz: float, seconds: float, begin_s: float) -> None:
        """Have a frame computed every period, from ``begin_s`` (:func:`time.monotonic`) on, during the session."""
        due = begin_s
        while due < begin_s + seconds and not self.ended:
            time.sleep(max(0.0, due - time.monotonic()))
            self.frame()
            due += (1 + max(0, int((time.monotonic() - due) * hz))) / hz


def _photograph(rng: np.random.Generator, size: tuple[int, int]) -> NDArray[np.uint8]:
    """Make an image whose PNG is about as large as a photograph's: smooth, with a little noise."""
    rows, columns = np.mgrid[: size[0], : size[1]]
    smooth = np.stack([rows // 2 + columns // 3, columns // 2, (rows + columns) // 4], axis=-1)
    return np.asarray((smooth + rng.integers(0, 32, (*size, 3))) % 256, np.uint8)


def _changed(
    image: NDArray[np.uint8], share: float, rng: np.random.Generator, block: int = 16
) -> tuple[NDArray[np.uint8], CacheMap]:
    grid = -(-image.shape[0] // block), -(-image.shape[1] // block)
    reusable = rng.random(grid) >= share
    cache_map = CacheMap.of_blocks(reusable, image.shape[:2], block, Motion.none())
    other = _photograph(rng, image.shape[:2])
    return np.where(cache_map.active_mask[:, :, None], other, image), cache_map


def _wait_for(holds: Callable[[], bool], meanwhile: Callable[[], None]) -> None:
    deadline = time.monotonic() + _PATIENCE_S
    while not holds():
        if time.monotonic() > deadline:
            raise LinkError("no session has started")
        meanwhile()
        time.sleep(0.01)
