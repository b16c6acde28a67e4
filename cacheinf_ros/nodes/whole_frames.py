# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""A robot's part in having whole frames computed by a server."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray
from rclpy.node import Node

from cacheinf_ros.errors import MessageError
from cacheinf_ros.msg import InferenceResult
from cacheinf_ros.nodes.conversions import encode
from cacheinf_ros.nodes.packet_messages import result_from, whole_frame
from cacheinf_ros.nodes.server_connection import LinkedSession, ServerConnection, ServerReport
from cacheinf_ros.offload import Identity, OffloadConfig, Ticket, WholeFrameSession, WireImage
from cacheinf_ros.pipeline import Health

_AT_LEAST = 2**25  # bytes of outputs: the server sends as many as its own limit allows, whatever the limit here


class WholeFrames(LinkedSession[WholeFrameSession]):
    """Sends frames of one model, waits for results until the deadline, and reports when the server fails or is back.

    Attributes:
        bytes_sent: the bytes of all encoded frames so far.
    """

    def __init__(
        self,
        node: Node,
        connection: ServerConnection,
        config: OffloadConfig,
        identity: Identity,
        health: Health,
        *,
        most_output_bytes: int,
        is_wanted: Callable[[], bool] = lambda: True,
        report: ServerReport | None = None,
    ) -> None:
        """Prepare, and greet the server while frames are to be sent.

        Args:
            identity: the identity of the model.
            most_output_bytes: the limit for the outputs in a result, at least 32 MB; larger results are not taken.
            is_wanted: returns whether frames are to be sent at present.
            report: reports how the session is doing; None: a report of its own does.
        """
        self.bytes_sent = 0
        self._config = config
        self._health = health
        self._identity = identity
        self._most_output_bytes = max(most_output_bytes, _AT_LEAST)
        super().__init__(node, connection, report or whole_frame_report(node, health), config.probe_s, is_wanted)

    @property
    def complaint(self) -> str:
        """Why the server is not waited for; empty where it is."""
        return self.session.complaint

    def change(self, identity: Identity) -> None:
        """Have another model compute frames from now on, see :meth:`WholeFrameSession.change`."""
        self._identity = identity
        self.session.change(identity)

    def ask(self, stamp_ns: int, image: NDArray[np.uint8], *, more_ms: float = 0.0) -> InferenceResult | None:
        """Return the server's result for a frame by its deadline, or None where the frame must be computed here.

        Args:
            stamp_ns: the stamp of the frame.
            image: uint8 [height, width, 3], BGR.
            more_ms: time beyond the deadline, for a server that has to load the model first; where it is given, the
                start of the session is waited for, too.
        """
        started = time.monotonic()
        session = self.session  # kept for the whole frame: another session may replace it meanwhile
        if more_ms:
            session.poll()
            session.wait_until_started(more_ms / 1e3)
        ticket = session.request(more_ms)
        result = None
        if ticket is not None:
            self._send(session, ticket, stamp_ns, image)
            result = _result(session, ticket) if ticket.awaited else None
            self._health.count("server_answers" if result else "server_misses" if ticket.awaited else "server_probes")
        if result is not None:
            took_ms = 1e3 * (time.monotonic() - started)
            result.model, result.where, result.variant, result.why = self._identity.model, "server", "", ""
            stages_ms = no_longer_than(took_ms, result.stage_ms)
            result.stage_names = [*result.stage_names, "link"]
            result.stage_ms = [*stages_ms, max(0.0, took_ms - sum(stages_ms))]
        return result

    def _send(self, session: WholeFrameSession, ticket: Ticket, stamp_ns: int, image: NDArray[np.uint8]) -> None:
        picture = encode(WireImage.JPEG.value, image, self._config.jpeg_quality)
        self._health.count("bytes_sent", len(picture))
        self.bytes_sent += len(picture)
        session.send(ticket, whole_frame(stamp_ns, picture))

    def _make_session(self, name: str, before: WholeFrameSession | None) -> WholeFrameSession:
        return WholeFrameSession(
            name, self._identity, self._config, self._connection.send, most_output_bytes=self._most_output_bytes
        )

    def _greet(self) -> None:
        self.session.poll()
        self._tell(self.session.complaint)


def whole_frame_report(node: Node, health: Health, prefix: str = "") -> ServerReport:
    """Make the report of a session for whole frames; ``prefix``: of its texts, where the node has several of these."""
    return ServerReport(node, health, started="answers", until="it answers", prefix=prefix)


def no_longer_than(took_ms: float, stages_ms: Sequence[float]) -> list[float]:
    """Return the stage times that a server states, scaled down to the elapsed time: a robot may pay for them."""
    stated_ms = sum(stages_ms)
    if stated_ms <= took_ms:
        return list(stages_ms)
    # divided first: the other ratio may be too small a number to be exact; 0 where the sum is infinite
    return [min(stage_ms / stated_ms * took_ms, stage_ms) for stage_ms in stages_ms]


def _result(session: WholeFrameSession, ticket: Ticket) -> InferenceResult | None:
    content = session.result(ticket)
    try:
        return None if content is None else result_from(content)
    except MessageError as error:
        session.fail(session.epoch, f"the server: {error}")
        return None
