# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Packets between a gateway and a process that computes: over TCP, each connection for one session.

Either end proves that it knows the process' key before a packet is read. A process that is killed is noticed at once:
the system closes its connections.
"""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from queue import SimpleQueue

from cacheinf_ros.errors import MessageError
from cacheinf_ros.fleet.proven_connections import proven_connection
from cacheinf_ros.offload import Packet
from cacheinf_ros.offload.protocol.packets import LARGEST
from cacheinf_ros.pipeline import guarded

_HEADER = struct.Struct("<BIIIIIIB")  # kind, epoch, frame, tensor, part, parts, checksum, length of the session's name
_LENGTH = struct.Struct("!I")
_MOST_BYTES = LARGEST + 1000
_MOST_WAITING = 64 * 2**20  # bytes that wait for a process that does not read: it counts as lost

Address = tuple[str, int]


def packet_bytes(packet: Packet) -> bytes:
    """A packet as bytes."""
    name = packet.session.encode()
    header = _HEADER.pack(
        packet.kind, packet.epoch, packet.frame, packet.tensor, packet.part, packet.parts, packet.checksum, len(name)
    )
    return b"".join((header, name, packet.data))


def packet_of(content: bytes) -> Packet:
    """The opposite; :class:`MessageError` where it is cut off. Whether it is sound is for the session to see."""
    if len(content) < _HEADER.size:
        raise MessageError(f"a packet of {len(content)} bytes is cut off")
    kind, epoch, frame, tensor, part, parts, checksum, length = _HEADER.unpack_from(content)
    end = _HEADER.size + length
    if len(content) < end:
        raise MessageError(f"a packet of {len(content)} bytes is cut off")
    try:
        name = content[_HEADER.size : end].decode("ascii")
    except UnicodeDecodeError:
        raise MessageError("a packet's session has no name") from None
    return Packet(
        session=name, epoch=epoch, kind=kind, frame=frame, tensor=tensor, part=part, parts=parts, data=content[end:],
        checksum=checksum,
    )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Listening:
    """Who is told of what happens on a connection.

    Attributes:
        receive: takes packets, in the reading thread.
        lost: is called once, by any thread, when the other end is gone, or what it sends cannot be received; not after
            :meth:`PacketStream.close`. It takes the reason, empty where the connection has just ended.
    """

    receive: Callable[[Packet], None]
    lost: Callable[[str], None]


class PacketStream:
    """One end of a connection. Sending never waits: what the system does not take at once, a thread writes.

    As a rule it takes all: a packet then costs no change of threads at this end, and one at the other.
    """

    def __init__(self, connection: socket.socket, listening: Listening, name: str) -> None:
        """Be ready to write; :meth:`start` begins to read. ``connection``: blocks; ``name``: of the other end."""
        self._listening = listening
        self._name = name
        self._queue: SimpleQueue[bytes | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._waiting = 0  # bytes
        self._is_open = True
        self._socket = connection
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # small packets go at once
        self._file = self._socket.makefile("rb")  # the socket stays open until this is closed, too
        self._writer = threading.Thread(target=self._write, name=f"{name}_out", daemon=True)
        self._reader = threading.Thread(target=self._read, name=f"{name}_in", daemon=True)
        self._writer.start()

    def start(self) -> None:
        """Read from now on."""
        self._reader.start()

    def send(self, packet: Packet) -> None:
        """Send without waiting."""
        content = packet_bytes(packet)
        content = _LENGTH.pack(len(content)) + content
        with self._lock:
            if not self._is_open:
                return
            if not self._waiting:
                content = content[self._written_at_once(content) :]
            if content:
                self._waiting += len(content)
                self._queue.put(content)
            is_stuck = self._waiting > _MOST_WAITING
        if is_stuck:
            self._end()

    def close(self) -> None:
        """End; what was sent before is still written where the other end reads."""
        with self._lock:
            self._is_open = False
        self._queue.put(None)

    def _written_at_once(self, content: bytes) -> int:
        try:
            return self._socket.send(content, socket.MSG_DONTWAIT)
        except OSError:
            return 0  # no room, or nobody there: the thread finds out

    def _write(self) -> None:
        with suppress(OSError):
            while (content := self._queue.get()) is not None:
                self._socket.sendall(content)
                with self._lock:
                    self._waiting -= len(content)
        self._end()
        with self._lock:
            self._socket.close()

    def _read(self) -> None:
        with guarded(f"packets of {self._name}") as failure, suppress(OSError, EOFError), self._file:
            while True:
                (length,) = _LENGTH.unpack(self._taken(_LENGTH.size))
                if length > _MOST_BYTES:
                    raise MessageError(f"a packet of {length} bytes is too long")
                self._listening.receive(packet_of(self._taken(length)))
        self._end(failure.reason)

    def _taken(self, length: int) -> bytes:
        content = self._file.read(length)
        if len(content) < length:
            raise EOFError
        return content

    def _end(self, reason: str = "") -> None:
        with self._lock:
            was_open, self._is_open = self._is_open, False
            with suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)  # wakes the threads, which then let go of the connection
        self._queue.put(None)
        if was_open:
            self._listening.lost(reason)


def connect(address: Address, key: bytes, listening: Listening, name: str) -> PacketStream:
    """Connect to a process that computes.

    Raises:
        LinkError: nobody is there, or somebody else, or does not say who it is.
    """
    return PacketStream(proven_connection(address, key), listening, name)
