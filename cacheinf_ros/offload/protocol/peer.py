# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""A robot's view of the server during one frame."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol

from cacheinf_ros.engine import FrameStart, Outdated, Partition, Patch, Rows
from cacheinf_ros.errors import LinkError
from cacheinf_ros.offload.protocol.packets import Kind
from cacheinf_ros.offload.protocol.transfer import Transfer, Wire

Choose = Callable[[Outdated], Partition | None]
Frame = tuple[int, int]
"""An epoch, and the number of a frame in it."""


class Session(Protocol):
    """What a frame needs of :class:`.row_session.RowSession`."""

    def begin(self, epoch: int, start: FrameStart, *, is_awaited: bool) -> tuple[int, bytes]:
        """Take note that the start of the next frame is being sent; returns its number, and the start as bytes.

        Raises:
            LinkError: the epoch has ended.
        """
        ...

    def late(self, frame: int, size: int) -> None:
        """Take note that no answer came for a frame, for which ``size`` bytes were sent."""
        ...

    def fail(self, epoch: int, reason: str) -> None:
        """End an epoch, if it has not ended yet."""
        ...


class FramePeer:
    """The server during one frame; implements :class:`.sharing.RemotePeer`."""

    def __init__(
        self, session: Session, wire: Wire, choose: Choose, patience_s: float, *, is_awaited: bool = True
    ) -> None:
        self.choose = choose
        self.epoch = wire.epoch
        self.is_awaited = is_awaited
        self._session = session
        self._wire = wire
        self._patience_s = patience_s
        self._crossing: Transfer | None = None
        self._start_bytes = 0

    @property
    def frame(self) -> Frame | None:
        """The epoch and number of the frame; None before it has begun."""
        return (self.epoch, self._crossing.frame) if self._crossing else None

    @property
    def bytes_sent(self) -> int:
        """The bytes that were sent in all, including the pixels of the input."""
        return self._start_bytes + (self._crossing.sent if self._crossing else 0)

    @property
    def bytes_received(self) -> int:
        """The bytes of rows that have arrived."""
        return self._crossing.received if self._crossing else 0

    @property
    def waited_ms(self) -> float:
        """The time that the robot waited for rows of the server, ms."""
        return 1e3 * self._crossing.waited_s if self._crossing else 0.0

    def begin(self, start: FrameStart) -> None:
        """Implement :meth:`RemotePeer.begin`."""
        frame, content = self._session.begin(self.epoch, start, is_awaited=self.is_awaited)
        self._start_bytes = len(content)
        self._crossing = Transfer(self._wire, frame, time.monotonic() + self._patience_s)
        self._wire.put(Kind.START, content, frame)

    def fail(self, reason: str) -> None:
        """Implement :meth:`RemotePeer.fail`."""
        self._session.fail(self.epoch, reason)

    def send(self, tensor: str, patch: Patch) -> None:
        """Implement :meth:`Exchange.send`."""
        assert self._crossing is not None
        self._crossing.send(tensor, patch)

    def receive(self, tensor: str, rows: Rows) -> Patch:
        """Implement :meth:`Exchange.receive`; where nothing comes, the epoch ends."""
        assert self._crossing is not None
        try:
            return self._crossing.receive(tensor, rows)
        except LinkError as error:
            self._session.late(self._crossing.frame, self.bytes_sent)
            self._session.fail(self.epoch, str(error))
            raise
