# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Whole frames sent to a server: when to send one, how long to wait, and when the server counts as down.

A frame is sent and its answer awaited until the deadline; the caller computes it locally when the answer is late. A
server that was late is *down*: frames are no longer kept waiting for it, and every now and then (exponential back-off)
one is sent as a probe while it is computed locally. A timely answer to a probe makes the server *up* again. So a dead
server costs one deadline, once.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from cacheinf_ros.config import Config, parameter, unlisted

_NS_PER_MS = 1_000_000
_NS_PER_S = 1_000_000_000


class WireType(Enum):
    """The type of numbers on the wire."""

    FLOAT32 = "float32"
    """Floats as they are."""
    FLOAT16 = "float16"
    """Floats with 11 bits of mantissa."""
    INT8 = "int8"
    """Integers of 255 levels, scaled by the largest value of each channel."""

    @property
    def bytes(self) -> int:
        """The bytes that a number takes."""
        return {"float32": 4, "float16": 2, "int8": 1}[self.value]


class WireImage(Enum):
    """The encoding of a frame on the wire."""

    PNG = "png"
    JPEG = "jpeg"

    @property
    def pixel_bytes(self) -> float:
        """About how many bytes a pixel of a photograph takes."""
        return _PIXEL_BYTES[self]


_PIXEL_BYTES = {WireImage.PNG: 1.8, WireImage.JPEG: 0.35}


class OffloadConfig(Config):
    """How frames are sent to a server."""

    group = "server"

    server_deadline_ms: float = parameter(
        200.0,
        "time after which a frame shared with the server is computed locally instead, ms",
        low=1.0,
        high=60_000.0,
        name="server.deadline_ms",
    )
    wire_image: WireImage = unlisted(WireImage.PNG, "encoding of pixels sent: png is lossless, jpeg much smaller")
    wire_dtype: WireType = unlisted(
        WireType.FLOAT32, "numbers of feature maps on the wire: float32 is exact, float16 half, int8 a quarter of it"
    )
    wire_compress: bool = unlisted(False, "compress feature maps on the wire: for links below some 20 Mbit/s")
    jpeg_quality: int = unlisted(90, "quality of jpeg", low=1, high=100)
    probe_s: float = unlisted(0.5, "time until a server that failed is tried again, s", low=0.01, high=600.0)
    priority: int = unlisted(
        0, "of this robot where a fleet of servers has not room for all: the higher goes first", low=-100, high=100
    )
    probe_max_s: float = unlisted(
        30.0, "limit to which server.probe_s doubles at each failure, s", low=0.01, high=600.0
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Ticket:
    """Permission to send one frame.

    Attributes:
        sequence: the number of the request, echoed in the answer.
        deadline_ns: until when the answer is worth waiting for.
        awaited: whether to wait for the answer; otherwise the frame is a probe, and is computed locally at once.
    """

    sequence: int
    deadline_ns: int
    awaited: bool


class FrameSession:
    """One robot's requests to the server; it knows the time only from its callers."""

    def __init__(self, config: OffloadConfig) -> None:
        self._config = config
        self._sequence = 0
        self._open: Ticket | None = None
        self._allowed_ms = 0.0  # from the open request to its deadline
        self._failures = 0
        self._next_probe_ns = 0
        self.complaint = ""
        """Why the server is down; empty while it is up."""

    @property
    def is_up(self) -> bool:
        """Whether answers are worth waiting for."""
        return not self.complaint

    def request(self, now_ns: int, more_ms: float = 0.0) -> Ticket | None:
        """Ask to send a frame; returns None where one is still open, or the server is down and not yet due for a probe.

        Args:
            now_ns: the present time.
            more_ms: time beyond the deadline, for what the server has to do first.
        """
        self.expire(now_ns)
        if self._open is not None or (not self.is_up and now_ns < self._next_probe_ns):
            return None
        self._sequence += 1
        self._allowed_ms = self._config.server_deadline_ms + more_ms
        deadline_ns = now_ns + round(self._allowed_ms * _NS_PER_MS)
        self._open = Ticket(sequence=self._sequence, deadline_ns=deadline_ns, awaited=self.is_up)
        return self._open

    @property
    def allowed_ms(self) -> float:
        """The time that the answer to the open request is given; 0: none is awaited."""
        return 0.0 if self._open is None else self._allowed_ms

    @property
    def open_sequence(self) -> int:
        """The sequence number of the request whose answer may still come in time; 0: there is none."""
        return 0 if self._open is None else self._open.sequence

    @property
    def failures(self) -> int:
        """The number of requests in a row that failed."""
        return self._failures

    def is_open(self, ticket: Ticket) -> bool:
        """Tell whether the ticket's answer may still come in time."""
        return self._open is ticket

    def start_anew(self) -> None:
        """Forget what was sent, and how the server has answered, because there is another server, or none."""
        self.give_up()
        self._failures, self.complaint = 0, ""

    def give_up(self) -> None:
        """Stop waiting for the answer to what was sent, because it will not come."""
        self._open = None

    def receive(self, sequence: int, refusal: str, now_ns: int) -> Ticket | None:
        """Take an answer.

        Args:
            sequence: the number that the answer echoes.
            refusal: why the server did not run the frame; empty where it did.
            now_ns: the present time.

        Returns:
            the ticket that is answered in time, or None for an answer to ignore: late, repeated or refused.
        """
        self.expire(now_ns)
        if self._open is None or sequence != self._open.sequence:
            return None
        ticket, self._open = self._open, None
        if refusal:
            self._fail(refusal, now_ns)
            return None
        self.complaint, self._failures = "", 0
        return ticket

    def expire(self, now_ns: int) -> None:
        """Give up on an answer whose deadline has passed."""
        if self._open is not None and now_ns >= self._open.deadline_ns:
            self._open = None
            self._fail(f"no answer within {self._allowed_ms:g} ms", now_ns)

    def _fail(self, complaint: str, now_ns: int) -> None:
        wait_s = min(self._config.probe_s * 2.0 ** min(self._failures, 30), self._config.probe_max_s)
        self._failures += 1
        self._next_probe_ns = now_ns + round(wait_s * _NS_PER_S)
        self.complaint = complaint
