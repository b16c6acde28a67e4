# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The inference node's connection to a server that computes whole frames: offload policy ``remote_jpeg``."""

from __future__ import annotations

import secrets
import threading
import time

import numpy as np
from numpy.typing import NDArray
from rclpy.node import Node
from std_msgs.msg import Header

from cacheinf_ros.msg import FrameRequest, FrameResponse, InferenceResult
from cacheinf_ros.nodes.conversions import encode, request_message
from cacheinf_ros.nodes.limited import Sender
from cacheinf_ros.nodes.topics import profile, publish_on, subscribe_to
from cacheinf_ros.offload import FrameSession, OffloadConfig, Ticket, WireImage
from cacheinf_ros.pipeline.health import Health
from cacheinf_ros.pipeline.node_configs import ServerTopicsConfig

_NS_PER_S = 1e9


class ServerLink:
    """Sends frames, waits for answers until their deadline, and says when the server fails and when it is back."""

    def __init__(
        self,
        node: Node,
        topics: ServerTopicsConfig,
        config: OffloadConfig,
        model: str,
        health: Health,
        sender: Sender,
    ) -> None:
        self._config = config
        self._sender = sender
        self._model = model
        self._health = health
        self._logger = node.get_logger()
        self._session = FrameSession(config, f"robot_{secrets.token_hex(4)}")
        self._changed = threading.Condition()
        self._answer: tuple[int, InferenceResult] | None = None
        self._said = ""
        self.bytes_sent = 0
        """Of encoded frames, in all."""
        self._requests = publish_on(node, FrameRequest, topics.request_topic, profile(1))
        # latched: the server's publisher of this topic appears with our first request, and may find us late
        responses = f"{topics.response_topic}/{self._session.name}"
        self._responses = subscribe_to(node, FrameResponse, responses, self._receive, profile(1, latched=True))

    @property
    def is_up(self) -> bool:
        """Whether there is a server, and it is worth waiting for."""
        return bool(self._requests.get_subscription_count()) and not self.complaint

    @property
    def complaint(self) -> str:
        """Why the server is not waited for; empty: it is."""
        with self._changed:
            self._session.expire(time.monotonic_ns())
            return self._session.complaint

    def ask(
        self, header: Header, image: NDArray[np.uint8], *, model: str = "", more_ms: float = 0.0
    ) -> InferenceResult | None:
        """The server's result for a frame, or None where it must be computed here; returns before the deadline.

        Args:
            header, image: the frame; uint8 [height, width, 3], BGR.
            model: to run in place of the link's own.
            more_ms: beside the deadline, for what the server has to do first.
        """
        started = time.monotonic()
        with self._changed:
            ticket = self._session.request(time.monotonic_ns(), more_ms)
            self._answer = None
        result = None
        if ticket is not None:
            self._send(header, image, model or self._model, ticket)
            result = self._wait(ticket) if ticket.awaited else None
            self._health.count("server_answers" if result else "server_misses" if ticket.awaited else "server_probes")
        self._say()
        if result is not None:
            on_link_ms = 1e3 * (time.monotonic() - started) - sum(result.stage_ms)
            result.stage_names = [*result.stage_names, "link"]
            result.stage_ms = [*result.stage_ms, max(0.0, on_link_ms)]
        return result

    def _send(self, header: Header, image: NDArray[np.uint8], model: str, ticket: Ticket) -> None:
        wire = WireImage.JPEG.value
        data = encode(wire, image, self._config.jpeg_quality)
        self._health.count("bytes_sent", len(data))
        self.bytes_sent += len(data)
        request = request_message(
            header, session=self._session.name, sequence=ticket.sequence, model=model, wire=wire, data=data
        )
        self._sender.publish(self._requests, request, len(data))

    def _wait(self, ticket: Ticket) -> InferenceResult | None:
        with self._changed:
            left_s = (ticket.deadline_ns - time.monotonic_ns()) / _NS_PER_S
            self._changed.wait_for(lambda: self._answer is not None or not self._session.is_up, max(0.0, left_s))
            self._session.expire(time.monotonic_ns())
            if self._answer is None or self._answer[0] != ticket.sequence:
                return None
            return self._answer[1]

    def _receive(self, message: FrameResponse) -> None:
        with self._changed:
            ticket = self._session.receive(message.session, message.sequence, message.result.error, time.monotonic_ns())
            if ticket is not None:
                self._answer = (ticket.sequence, message.result)
            self._changed.notify_all()

    def _say(self) -> None:
        with self._changed:
            complaint = self._session.complaint
        if complaint != self._said:
            self._said = complaint
            self._health.note("server", complaint or "up")
            if complaint:
                self._logger.warning(f"server: {complaint}; frames are computed here until it answers again")
            else:
                self._logger.info("server: answers again")
