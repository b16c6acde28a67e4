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
from multiprocessing import AuthenticationError
from multiprocessing.connection import Client, Connection, Listener
from queue import SimpleQueue

from cacheinf_ros.errors import LinkError, MessageError
from cacheinf_ros.offload.protocol.packets import LARGEST, Packet

_HEADER = struct.Struct("<BIIIIIIB")  # kind, epoch, frame, tensor, part, parts, checksum, length of the session's name
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
    try:
        name = content[_HEADER.size : end].decode("ascii")
    except UnicodeDecodeError:
        raise MessageError("a packet's session has no name") from None
    return Packet(
        session=name, epoch=epoch, kind=kind, frame=frame, tensor=tensor, part=part, parts=parts, data=content[end:],
        checksum=checksum,
    )  # fmt: skip


def listen(host: str, key: bytes) -> Listener:
    """Take connections of who knows the key, at a port that is free."""
    return Listener((host, 0), "AF_INET", backlog=64, authkey=key)


class PacketStream:
    """One end of a connection. Sending never waits: a thread writes, another reads."""

    def __init__(
        self, connection: Connection, receive: Callable[[Packet], None], lost: Callable[[], None], name: str
    ) -> None:
        """Start to write; :meth:`start` begins to read.

        Args:
            receive: takes packets, in the reading thread.
            lost: is called once, by either thread, when the other end is gone; not after :meth:`close`.
            name: of the threads.
        """
        self._connection = connection
        self._receive = receive
        self._lost = lost
        self._queue: SimpleQueue[bytes | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._waiting = 0
        self._is_open = True
        with socket.socket(fileno=socket.dup(connection.fileno())) as plain:  # small packets go at once
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._writer = threading.Thread(target=self._write, name=f"{name}_out", daemon=True)
        self._reader = threading.Thread(target=self._read, name=f"{name}_in", daemon=True)
        self._writer.start()

    def start(self) -> None:
        """Read from now on."""
        self._reader.start()

    def send(self, packet: Packet) -> None:
        """Send without waiting."""
        content = packet_bytes(packet)
        with self._lock:
            self._waiting += len(content)
            is_stuck = self._waiting > _MOST_WAITING
        if is_stuck:
            self._end()
        self._queue.put(content)

    def close(self) -> None:
        """End; what was sent before is still written where the other end reads."""
        with self._lock:
            self._is_open = False
        self._queue.put(None)

    def _write(self) -> None:
        with suppress(OSError):
            while (content := self._queue.get()) is not None:
                self._connection.send_bytes(content)
                with self._lock:
                    self._waiting -= len(content)
        self._end()

    def _read(self) -> None:
        with suppress(OSError, EOFError, MessageError):
            while True:
                self._receive(packet_of(self._connection.recv_bytes(_MOST_BYTES)))
        self._end()

    def _end(self) -> None:
        with self._lock:
            was_open, self._is_open = self._is_open, False
        with suppress(OSError), socket.socket(fileno=socket.dup(self._connection.fileno())) as plain:
            plain.shutdown(socket.SHUT_RDWR)  # wakes the other thread, which then lets go of the connection, too
        self._queue.put(None)
        if was_open:
            self._lost()


def connect(
    address: Address, key: bytes, receive: Callable[[Packet], None], lost: Callable[[], None], name: str
) -> PacketStream:
    """Connect to a process that computes.

    Raises:
        LinkError: nobody is there, or somebody else.
    """
    try:
        connection = Client(address, "AF_INET", authkey=key)
    except (OSError, EOFError, AuthenticationError) as error:
        raise LinkError(f"no process computes at {address[0]}:{address[1]}: {error}") from None
    return PacketStream(connection, receive, lost, name)
