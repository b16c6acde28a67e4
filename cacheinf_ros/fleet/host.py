# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""A process that computes sessions of one model: usually one, and more after another machine was lost."""

from __future__ import annotations

import logging
import secrets
import socket
import threading
from contextlib import suppress
from dataclasses import dataclass

from cacheinf_ros.catalog.serving import CatalogServerConfig, SplitModels
from cacheinf_ros.engine import EngineConfig, PartitionWorker
from cacheinf_ros.errors import MessageError
from cacheinf_ros.fleet.frame_stream import Address, Listening, PacketStream
from cacheinf_ros.fleet.proven_connections import ProvenListener
from cacheinf_ros.fleet.shared_weights import ModelStore, shared_model
from cacheinf_ros.graph import Model
from cacheinf_ros.offload import Identity, Packet, RowWorker, ServerSession, Work
from cacheinf_ros.offload.row_workers import RowWorkers
from cacheinf_ros.pipeline import guarded
from cacheinf_ros.pipeline.node_configs import ModelConfig
from cacheinf_ros.pipeline.runner import open_model

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class HostSetting:
    """What a process computes, and how; paths are those of its own machine.

    Attributes:
        asked: the model, which must be the gateway's own or from one of the catalogs.
        share_weights: whether processes on one machine that compute the same model share its weights in memory.
    """

    asked: Identity
    model: ModelConfig
    catalogs: CatalogServerConfig
    engine: EngineConfig
    share_weights: bool = True

    @property
    def weights_key(self) -> str:
        """The key that distinguishes models, and ways to pack their weights."""
        return f"{self.asked.network} {self.engine.device} {self.engine.precision.value}"


class SessionHost:
    """Accepts connections of gateways, each for one session."""

    def __init__(self, setting: HostSetting, host: str = "127.0.0.1", store: ModelStore | None = None) -> None:
        """Load and compile the model, and listen.

        Args:
            setting: what to compute, and how.
            host: address of this machine that gateways can reach.
            store: store of the models that processes of this machine share; None: there is none.

        Raises:
            CacheinfError: this machine has no such model, or it cannot be compiled.
        """
        self._setting = setting
        self._model = self._opened(store)
        self._lock = threading.Lock()
        self._compiling = threading.Lock()
        self._rows = RowWorkers()
        self._spare: PartitionWorker | None = self._compiled()
        self._sessions: dict[ServerSession, PacketStream | None] = {}
        self._is_open = True
        self.key = secrets.token_bytes(32)
        self._listener = ProvenListener(host, self.key, lambda connection: _Served(self, connection).start())

    @property
    def address(self) -> Address:
        """The address where gateways connect."""
        return self._listener.address

    @property
    def sessions(self) -> int:
        """The number of sessions."""
        with self._lock:
            return len(self._sessions)

    def close(self) -> None:
        """End all sessions, and stop listening."""
        self._is_open = False
        self._listener.close()
        with self._lock:
            sessions = dict(self._sessions)
        for session, stream in sessions.items():
            session.close()
            if stream is not None:
                stream.close()

    def _opened(self, store: ModelStore | None) -> Model:
        """Return the model, with its own weights or those that the machine's processes share."""
        setting, engine = self._setting, self._setting.engine

        def load() -> Model:
            return SplitModels(open_model(setting.model), setting.catalogs.read()).find(setting.asked)

        if store is None or not setting.share_weights:
            return load()
        return shared_model(store, setting.weights_key, load, lambda model: PartitionWorker(model, engine))

    def worker(self, asked: Identity, work: Work) -> RowWorker:
        """Return the engine that is ready, and prepare another one for the next session."""
        if work is not Work.ROWS or asked.network != self._setting.asked.network:
            raise MessageError(f"this process computes rows of {self._setting.asked.model!r} only")
        with self._compiling:
            if asked.dropped:
                worker = PartitionWorker(self._model, self._setting.engine, asked.dropped)
            else:
                worker, self._spare = self._spare or self._compiled(), None
            rows = self._rows.worker(asked, worker)
        threading.Thread(target=self._prepare, name="prepare", daemon=True).start()
        return rows

    def joined(self, session: ServerSession, stream: PacketStream) -> None:
        """Note that a session has begun."""
        with self._lock:
            self._sessions[session] = stream

    def left(self, session: ServerSession) -> None:
        """Note that a session has ended."""
        with self._lock:
            self._sessions.pop(session, None)

    def _prepare(self) -> None:
        with guarded("an engine for the next session"), self._compiling:  # else the next session compiles it
            if self._spare is None and self._is_open:
                self._spare = self._compiled()

    def _compiled(self) -> PartitionWorker:
        worker = PartitionWorker(self._model, self._setting.engine)
        worker.warm_up()
        return worker


class _Served:
    """A connection, and the session that its first packet starts."""

    def __init__(self, host: SessionHost, connection: socket.socket) -> None:
        self._host = host
        self._session: ServerSession | None = None
        listening = Listening(receive=self._receive, lost=self._end)
        self._stream = PacketStream(connection, listening, "session")

    def start(self) -> None:
        """Start to serve."""
        self._stream.start()

    def _receive(self, packet: Packet) -> None:
        if self._session is None:
            if not packet.starts_session:
                return
            self._session = session = ServerSession(packet.session, self._host.worker, self._stream.send, _log.warning)
            self._host.joined(session, self._stream)
            threading.Thread(target=self._serve, args=(session,), name=packet.session, daemon=True).start()
        self._session.receive(packet)

    def _serve(self, session: ServerSession) -> None:
        try:
            session.serve()
        finally:
            self._host.left(session)
            self._stream.close()

    def _end(self, reason: str) -> None:
        if self._session is not None:
            with suppress(OSError):
                self._session.close()
