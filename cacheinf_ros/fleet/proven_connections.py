# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""TCP connections whose ends prove to each other, within limited time, that they know a key.

A client that connects and says nothing, or as little as possible, delays nobody; Python's own
:mod:`multiprocessing.connection` would wait for it for ever. Each end sends a random number, and answers the other's
with an HMAC over both numbers and its role, so that an answer cannot be reflected.
"""

from __future__ import annotations

import hmac
import logging
import secrets
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress

from cacheinf_ros.errors import LinkError
from cacheinf_ros.pipeline import THROTTLE, guarded

PROOF_S = 5.0
"""The time limit for both ends' proofs; between two healthy ends they take milliseconds."""
_MOST_PROVING = 16  # connections at once
_NUMBER = 32  # bytes
_HOST, _GATEWAY = b"host", b"gateway"
_PAUSE_S = 0.2  # after a failure, such as too many open files
_log = logging.getLogger(__name__)


def proven_connection(address: tuple[str, int], key: bytes) -> socket.socket:
    """Connect to a listening process; the connection that is returned is blocking.

    Raises:
        LinkError: no process listens there, or it does not know the key, or it takes longer than :data:`PROOF_S`.
    """
    deadline_s = time.monotonic() + PROOF_S
    try:
        connection = socket.create_connection(address, PROOF_S)
        try:
            _prove_as_gateway(connection, key, deadline_s)
        except BaseException:
            connection.close()
            raise
    except (OSError, LinkError) as error:
        raise LinkError(f"no process computes at {address[0]}:{address[1]}: {error}") from None
    return connection


class ProvenListener:
    """Listens for clients that know a key; each has a thread for its proof. If too many wait, the oldest is dropped.

    Attributes:
        address: host and port of the listener.
    """

    def __init__(self, host: str, key: bytes, take: Callable[[socket.socket], None]) -> None:
        """Listen at a free port; ``take`` is called with each proven, blocking connection, in any thread."""
        self._key = key
        self._take = take
        self._lock = threading.Lock()
        self._proving: dict[socket.socket, None] = {}  # the oldest first
        self._is_open = True
        self._socket = socket.create_server((host, 0), backlog=64)
        bound, port = self._socket.getsockname()[:2]
        self.address = str(bound), int(port)
        threading.Thread(target=self._accept_on, name="accept", daemon=True).start()

    def close(self) -> None:
        """Stop listening."""
        self._is_open = False
        with suppress(OSError):  # already closed
            self._socket.shutdown(socket.SHUT_RDWR)  # wakes the thread that accepts
        self._socket.close()

    def _accept_on(self) -> None:
        while self._is_open:
            with guarded("a connection is not accepted") as failure:
                self._accept()
            if failure:
                time.sleep(_PAUSE_S)

    def _accept(self) -> None:
        try:
            connection, _ = self._socket.accept()
        except OSError:
            if self._is_open:
                raise
            return
        with self._lock:
            self._proving[connection] = None
            if len(self._proving) > _MOST_PROVING:
                oldest = next(iter(self._proving))
                del self._proving[oldest]
                with suppress(OSError):
                    oldest.shutdown(socket.SHUT_RDWR)  # its thread notices
        threading.Thread(target=self._prove, args=(connection,), name="prove", daemon=True).start()

    def _prove(self, connection: socket.socket) -> None:
        is_proven = False
        try:
            _prove_as_host(connection, self._key, time.monotonic() + PROOF_S)
            is_proven = True
        except (OSError, LinkError) as error:
            _log.warning("somebody connected who has not proven to know the key: %s", error, extra=THROTTLE)
        with self._lock:
            is_proven &= self._proving.pop(connection, connection) is None  # else it was dropped
        failure = None
        if is_proven and self._is_open:
            with guarded("a connection is not served") as failure:
                self._take(connection)
        if failure is None or failure:
            connection.close()


def _prove_as_host(connection: socket.socket, key: bytes, deadline_s: float) -> None:
    """Prove knowledge of the key as the host, but only after the other end has proven it."""
    own = secrets.token_bytes(_NUMBER)
    _send(connection, own, deadline_s)
    theirs = _taken(connection, _NUMBER, deadline_s)
    _check(_taken(connection, _NUMBER, deadline_s), _proof(key, _GATEWAY, own, theirs))
    _send(connection, _proof(key, _HOST, own, theirs), deadline_s)
    connection.settimeout(None)


def _prove_as_gateway(connection: socket.socket, key: bytes, deadline_s: float) -> None:
    """Answer the host's number with a proof, and check the host's proof."""
    theirs, own = _taken(connection, _NUMBER, deadline_s), secrets.token_bytes(_NUMBER)
    _send(connection, own + _proof(key, _GATEWAY, theirs, own), deadline_s)
    _check(_taken(connection, _NUMBER, deadline_s), _proof(key, _HOST, theirs, own))
    connection.settimeout(None)


def _proof(key: bytes, role: bytes, of_host: bytes, of_gateway: bytes) -> bytes:
    return hmac.digest(key, role + of_host + of_gateway, "sha256")


def _check(said: bytes, expected: bytes) -> None:
    if not hmac.compare_digest(said, expected):
        raise LinkError("it does not know the key")


def _send(connection: socket.socket, content: bytes, deadline_s: float) -> None:
    connection.settimeout(_left_s(deadline_s))
    connection.sendall(content)


def _taken(connection: socket.socket, count: int, deadline_s: float) -> bytes:
    """Receive exactly so many bytes."""
    content = b""
    while len(content) < count:
        connection.settimeout(_left_s(deadline_s))
        more = connection.recv(count - len(content))
        if not more:
            raise LinkError("it has hung up")
        content += more
    return content


def _left_s(deadline_s: float) -> float:
    left_s = deadline_s - time.monotonic()
    if left_s <= 0.0:
        raise TimeoutError("timed out")
    return left_s
