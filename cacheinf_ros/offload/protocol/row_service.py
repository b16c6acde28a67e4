# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The server's part in frames that a robot shares with it: it computes rows."""

from __future__ import annotations

import time

from cacheinf_ros.engine import PartitionWorker
from cacheinf_ros.errors import CacheinfError, LinkError, MessageError
from cacheinf_ros.offload.protocol.frames import WireType
from cacheinf_ros.offload.protocol.greeting import Hello
from cacheinf_ros.offload.protocol.mailbox import Mailbox, room_for
from cacheinf_ros.offload.protocol.packets import Channel, Kind, Packet
from cacheinf_ros.offload.protocol.schedule_service import Find, ScheduleService, find_nothing
from cacheinf_ros.offload.protocol.server_session import IDLE_S
from cacheinf_ros.offload.protocol.starts import decode_start
from cacheinf_ros.offload.protocol.transfer import Served, Transfer, Wire

_WIRE_TYPES = {kind.value: kind for kind in WireType}
_LEVELS_REMEDY = (
    "set precision to int8 at both, with one file of scales (copy it from ~/.cache/cacheinf_ros/scales of one machine "
    "to the other, and start that anew), or to bfloat16 or float32 at both"
)


class RowWorker:
    """Computes rows; implements :class:`.server_session.Worker`."""

    def __init__(self, partition: PartitionWorker, profile: list[list[float]], find: Find = find_nothing) -> None:
        """Prepare.

        Args:
            partition: computes the rows.
            profile: the times of the model's operators on this machine, see :class:`.greeting.Welcome`.
            find: answers a robot's question for schedules.
        """
        self.profile = profile
        self._partition = partition
        self._find = find

    def begin(self, hello: Hello, channel: Channel) -> RowService:
        """Implement :meth:`Worker.begin`."""
        wire_type = _WIRE_TYPES.get(hello.wire_type)
        if wire_type is None:
            raise MessageError(f"wire type {hello.wire_type!r}: one of {', '.join(_WIRE_TYPES)}")
        space = self._partition.space
        if objection := _levels_objection(hello.levels, space.levels_digest):
            raise MessageError(f"{objection}: {_LEVELS_REMEDY}")
        self._partition.forget()
        wire = Wire(
            session=channel.session, epoch=channel.epoch, send=channel.send, space=space, wire_type=wire_type,
            compress=hello.compress, mailbox=Mailbox(room_for(space), len(space.numbers)),
        )  # fmt: skip
        return RowService(self._partition, wire, hello.patience_ms / 1e3, ScheduleService(wire, self._find))


class RowService:
    """Serves one epoch; implements :class:`.server_session.Service`."""

    def __init__(self, partition: PartitionWorker, wire: Wire, patience_s: float, schedules: ScheduleService) -> None:
        """Prepare; ``patience_s`` is how long the robot's rows are waited for, in seconds."""
        self.frame = 1
        self._partition = partition
        self._wire = wire
        self._patience_s = patience_s
        self._schedules = schedules

    def deliver(self, packet: Packet) -> None:
        """Implement :meth:`Service.deliver`."""
        if packet.kind in (Kind.START, Kind.ROWS):
            self._wire.mailbox.deliver(packet)
        else:
            self._schedules.deliver(packet)

    def close(self, reason: str) -> None:
        """Implement :meth:`Service.close`."""
        self._wire.mailbox.close(reason)

    def serve(self) -> None:
        """Implement :meth:`Service.serve`; questions for schedules are answered between frames."""
        self._schedules.serve()
        try:
            content = self._wire.mailbox.take(self.frame, Kind.START, 0, time.monotonic() + IDLE_S)
        except LinkError:
            return  # nothing came, or a greeting did
        started, busy_before = time.monotonic(), time.thread_time()
        self._wire.put(Kind.STARTED, frame=self.frame)
        transfer = Transfer(self._wire, self.frame, started + self._patience_s)
        try:
            self._partition.compute_part(decode_start(content, self._partition.space), transfer)
        except CacheinfError:
            self._partition.forget()
            raise
        took_s = time.monotonic() - started
        computed_s = took_s - transfer.waited_s
        served = Served(
            took_ms=1e3 * took_s,
            waited_ms=1e3 * transfer.waited_s,
            busy_ms=1e3 * (time.thread_time() - busy_before if self._partition.is_on_cpu else computed_s),
            last_bytes=transfer.last_sent,
        )
        self._wire.put(Kind.DONE, served.encode(), self.frame)
        self.frame += 1
        self._wire.mailbox.forget_before(self.frame)


def _levels_objection(robot: str, server: str) -> str:
    """Return why the rows of one side mean nothing to the other, by their digests; empty where they do."""
    if robot == server:
        return ""
    if robot and server:
        return "robot and server compute in int8 with different scales, or in different precisions"
    return (
        f"the {'robot' if robot else 'server'} computes in int8 or bfloat16, the {'server' if robot else 'robot'} not"
    )
