# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Packets between a gateway and a process that computes, over TCP, with one connection per session.

Either end proves that it knows the process's key before a packet is read. A process that is killed is noticed at once,
as the system closes its connections.
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
from cacheinf_ros.fleet.packet_bytes import packet_bytes, packet_of
from cacheinf_ros.fleet.proven_connections import proven_connection
from cacheinf_ros.offload import Packet
from cacheinf_ros.offload.protocol.packets import LARGEST
from cacheinf_ros.pipeline import guarded

_LENGTH = struct.Struct("!I")
_MOST_BYTES = LARGEST + 1000
_MOST_WAITING = 64 * 2**20  # unsent bytes above which the other end counts as lost, as it does not read

_SILENT_S, _PROBES = 5, 5  # silence after which the other machine is probed, once a second, so many times

Address = tuple[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Listening:
    """The callbacks of a connection.

    Attributes:
        receive: called with each packet, in the reading thread.
        lost: called once, in any thread, when the other end is gone or sends what cannot be received; not after
            :meth:`PacketStream.close`. Its argument is the reason, empty where the connection has simply ended.
    """

    receive: Callable[[Packet], None]
    lost: Callable[[str], None]


class PacketStream:
    """One end of a connection. Sending never waits: what the system does not take at once, a thread writes.

    As a rule the system takes all, so that a packet costs no thread switch at this end, and one at the other.
    """

    def __init__(self, connection: socket.socket, listening: Listening, name: str) -> None:
        """Prepare to write; :meth:`start` begins to read. ``connection`` must block; ``name`` is the other end's."""
        self._listening = listening
        self._name = name
        self._queue: SimpleQueue[bytes | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._waiting = 0  # bytes that are not yet sent
        self._is_open = True
        self._socket = connection
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # small packets are sent at once
        _end_soon_without_answer(self._socket)
        self._file = self._socket.makefile("rb")  # the socket stays open until this is closed, too
        self._writer = threading.Thread(target=self._write, name=f"{name}_out", daemon=True)
        self._reader = threading.Thread(target=self._read, name=f"{name}_in", daemon=True)
        self._writer.start()

    def start(self) -> None:
        """Start to read."""
        self._reader.start()

    def send(self, packet: Packet) -> None:
        """Send a packet without waiting."""
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
        """Close the stream; what was sent before is still written if the other end reads."""
        with self._lock:
            self._is_open = False
        self._queue.put(None)

    def _written_at_once(self, content: bytes) -> int:
        try:
            return self._socket.send(content, socket.MSG_DONTWAIT)
        except OSError:
            return 0  # the writing thread finds out whether the buffer is full or the other end is gone

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
                self._socket.shutdown(socket.SHUT_RDWR)  # wakes the threads, which then close the connection
        self._queue.put(None)
        if was_open:
            self._listening.lost(reason)


def _end_soon_without_answer(connection: socket.socket) -> None:
    """Have the system end a connection whose other machine has lost power or the network, in seconds, not minutes."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, _SILENT_S)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 1)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, _PROBES)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 1000 * (_SILENT_S + _PROBES))


def connect(address: Address, key: bytes, listening: Listening, name: str) -> PacketStream:
    """Connect to a process that computes.

    Raises:
        LinkError: no process listens there, or it is another one, or it does not prove its identity.
    """
    return PacketStream(proven_connection(address, key), listening, name)
