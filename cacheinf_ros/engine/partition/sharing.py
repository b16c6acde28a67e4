# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""One frame computed by two machines: the robot's part, which begins and ends it. The server's is in
:mod:`.partition_worker`.

The robot tells the server how a frame is split and which pixels of the input have changed since it was told last. Each
machine then computes its rows, and sends the other what that reads of them (Hybrid-Parallel; CacheInf algorithms 1, 2).
Whatever fails on the way, the robot computes the frame alone, and the server starts anew.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from cacheinf_ros.engine.execution.active import pooled
from cacheinf_ros.engine.execution.border import Border
from cacheinf_ros.engine.input import InputWriter
from cacheinf_ros.engine.partition.exchange import Exchange
from cacheinf_ros.engine.partition.partition import Partition, Rows, Side
from cacheinf_ros.engine.program import Program
from cacheinf_ros.errors import LinkError, shortened
from cacheinf_ros.geometry import NO_SHIFT


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Pixels:
    """Changed pixels of the model's input.

    Attributes:
        rows: of the input, among which they lie.
        mask: uint8 [rows, width], 1 where a pixel has changed.
        image: uint8 [rows, width, 3], BGR; what the mask does not hold means nothing.
    """

    rows: Rows
    mask: NDArray[np.uint8]
    image: NDArray[np.uint8]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FrameStart:
    """What the server must know to compute its part of a frame.

    Attributes:
        partition: who computes what.
        refresh: whether no change is held back.
        outside: beside which sides padding has changed since the last frame that was shared.
        shift: (dx, dy) in pixels of the input, by which everything has moved since then.
        pixels: those that have changed since then.
    """

    partition: Partition
    refresh: bool
    outside: Border
    shift: tuple[int, int]
    pixels: Pixels


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Outdated:
    """What a frame makes necessary; masks are uint8, at the input's size or a smaller one, valid until the next frame.

    Attributes:
        changed: pixels of the input that have changed since the last frame.
        robot, server: those that have changed since each machine's copies were up to date, about.
    """

    changed: NDArray[np.uint8]
    robot: NDArray[np.uint8]
    server: NDArray[np.uint8]


class RemotePeer(Exchange, Protocol):
    """The way to a server, for one frame.

    Attributes:
        epoch: of the session; with a new one the server has nothing.
        is_awaited: whether the frame is shared; otherwise the server computes all of it, and so does this machine: what
            follows can be shared.
    """

    epoch: int
    is_awaited: bool

    def choose(self, outdated: Outdated) -> Partition | None:
        """How to share the frame; None: not at all."""
        ...

    def begin(self, start: FrameStart) -> None:
        """Start a frame there; raises :class:`LinkError` where that cannot be done."""
        ...

    def fail(self, reason: str) -> None:
        """End the epoch: what came cannot be used, and nobody knows what the server has."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Division:
    """How one frame is computed with a server.

    Attributes:
        peer: the way to it.
        partition: who computes what.
    """

    peer: RemotePeer
    partition: Partition

    @property
    def is_alone(self) -> bool:
        """Whether this machine computes all of it all the same: the server is only brought up to date."""
        return not self.peer.is_awaited


class SharedProgram:
    """A robot's program, which a server may help to run.

    Attributes:
        was_shared: whether the last frame was.
        complaint: why it was not, although it should have been.
    """

    def __init__(self, program: Program, writer: InputWriter) -> None:
        assert program.replicas is not None
        self.program = program
        self._replicas = program.replicas
        self.space = self._replicas.space
        self.complaint, self.was_shared = "", False
        self._writer = writer
        self._input = self._replicas[program.layout.graph.input]
        self._alone = self.space.everything_at(Side.ROBOT)
        self._used: Partition | None = None
        self._epoch = -1  # of the session to which what is known of the server belongs
        self._shift, self._outside = NO_SHIFT, Border.NONE  # since the last frame that was shared
        self._ran_alone = False  # since the last frame that was shared
        self._holds_received = False  # whether rows of a server may be in the cache
        # whether it is known of which types the tensors are that come from a server: of feature maps it always is
        self._knows_types = all(name in program.maps for name in self.space.heights)

    def moved(self, dx: int, dy: int) -> None:
        """Take note that everything was moved."""
        self._shift = self._shift[0] + dx, self._shift[1] + dy

    def forget_server(self) -> None:
        """The server has nothing, or nobody knows what."""
        self._replicas.forget_remote()
        self._shift, self._outside = NO_SHIFT, Border.NONE

    def divide(self, peer: RemotePeer) -> Division | None:
        """Ask a server for its part in the frame that has just been written; None: it has none."""
        self._input.stale_remote |= self.program.changed_input.mask
        if peer.epoch != self._epoch:
            self.forget_server()
            self._epoch = peer.epoch
        partition = peer.choose(self._outdated()) if self._knows_types else None
        return None if partition is None else Division(peer=peer, partition=partition)

    def execute(self, *, outside: Border, refresh: bool, division: Division | None = None) -> dict[str, torch.Tensor]:
        """As :meth:`Program.execute`; alone where the frame is not divided, or the server is not awaited or fails."""
        self._input.stale_remote |= self.program.changed_input.mask
        self._outside |= outside
        self.complaint, self.was_shared = "", False
        if division is not None and division.is_alone:
            self._prepare(division.peer)
        elif division is not None:
            peer, partition = division.peer, division.partition
            try:
                self._use(partition)
                self._replicas.exchange, self._replicas.received = peer, []
                self._holds_received = True
                peer.begin(self._start(partition, refresh=refresh))
                outputs = self.program.execute(outside=outside, refresh=refresh)
                if not _are_finite(outputs):
                    raise LinkError("with the server's rows outputs are no finite numbers")
                self.was_shared = True
                return outputs
            except (LinkError, RuntimeError, ValueError, TypeError, IndexError) as error:
                # whatever a peer sends, the frame is computed here: where it was not the peer's fault, that fails too
                self.complaint = shortened(str(error))
                peer.fail(self.complaint)
                self._replicas.distrust_received()
                self.forget_server()
                refresh = True  # what was computed has not been compared with what the rest of the network saw
            finally:
                self._replicas.exchange = None
        self._use(self._alone)
        self._ran_alone = True
        outputs = self.program.execute(outside=outside, refresh=refresh)
        self._knows_types = True
        if self._holds_received and not _are_finite(outputs):
            # what a server sent in earlier frames were numbers, but such that they lead to none
            self._holds_received = False
            self._replicas.distrust_all()
            outputs = self.program.execute(outside=outside, refresh=True)
        return outputs

    def _prepare(self, peer: RemotePeer) -> None:
        """Have the server compute a frame from its picture, as this machine does."""
        everything = self.space.everything_at(Side.SERVER)
        try:
            self._use(everything)
            peer.begin(self._start(everything, refresh=True))
        except LinkError as error:
            self.complaint = str(error)
            peer.fail(self.complaint)
            self.forget_server()

    def _outdated(self) -> Outdated:
        changed = self.program.changed_input.mask
        stale = self._replicas[next(iter(self.space.heights))].stale_local
        robot = pooled(changed, (stale.shape[0], stale.shape[1])) | stale if stale.any() else changed
        return Outdated(changed=changed, robot=robot, server=self._input.stale_remote)

    def _use(self, partition: Partition) -> None:
        if partition is not self._used:
            self._replicas.use(partition)
            self._used = partition

    def _start(self, partition: Partition, *, refresh: bool) -> FrameStart:
        rows = self._input.sent
        mask = self._input.take_stale_remote()
        pixels = Pixels(rows=rows, mask=mask, image=self._writer.seen[slice(*rows)])
        height, width = self._input.size
        outside = self._outside
        shift = max(-width, min(width, self._shift[0])), max(-height, min(height, self._shift[1]))
        self._shift, self._outside = NO_SHIFT, Border.NONE
        # What has changed here and back again since then is no change to the server, but differs from what is here.
        refresh, self._ran_alone = refresh or self._ran_alone, False
        return FrameStart(partition=partition, refresh=refresh, outside=outside, shift=shift, pixels=pixels)


def _are_finite(outputs: dict[str, torch.Tensor]) -> bool:
    return all(bool(torch.isfinite(output).all()) for output in outputs.values())
