# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The robot's part in frames that it computes together with a server.

The robot tells the server how a frame is partitioned and which pixels of the input have changed since the server was
last told. Each machine then computes its rows, and sends the other those that it reads (Hybrid-Parallel; CacheInf
algorithms 1 and 2). If anything fails, the robot computes the frame alone, and the server starts anew. The server's
part is in :mod:`.partition_worker`.
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
        rows: the rows of the input that mask and image cover.
        mask: uint8 [rows, width], 1 where a pixel has changed.
        image: uint8 [rows, width, 3], BGR; meaningless where the mask is 0.
    """

    rows: Rows
    mask: NDArray[np.uint8]
    image: NDArray[np.uint8]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FrameStart:
    """What the server must know to compute its part of a frame; changes are those since the last shared frame.

    Attributes:
        partition: which rows each machine computes.
        refresh: whether every change is passed on, however small.
        outside: the sides beside which padding has changed.
        shift: (dx, dy) in pixels of the input, by which everything has moved.
        pixels: the pixels of the input that have changed.
    """

    partition: Partition
    refresh: bool
    outside: Border
    shift: tuple[int, int]
    pixels: Pixels


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Outdated:
    """Which pixels of the input a frame requires to be computed.

    Masks are uint8, at the input's size or a smaller one, and valid until the next frame.

    Attributes:
        changed: the pixels that have changed since the last frame.
        robot, server: about the pixels that have changed since the machine's copies were last up to date.
    """

    changed: NDArray[np.uint8]
    robot: NDArray[np.uint8]
    server: NDArray[np.uint8]


class RemotePeer(Exchange, Protocol):
    """The connection to a server, for one frame.

    Attributes:
        epoch: a number that changes whenever the server has lost all its copies.
        is_awaited: whether the frame is shared; otherwise both machines compute all of it, so that the server is up to
            date and later frames can be shared.
    """

    epoch: int
    is_awaited: bool

    def choose(self, outdated: Outdated) -> Partition | None:
        """Choose how to share the frame; None: not at all."""
        ...

    def begin(self, start: FrameStart) -> None:
        """Start a frame at the server; raises :class:`LinkError` where that is not possible."""
        ...

    def fail(self, reason: str) -> None:
        """End the epoch, as what came cannot be used and the state of the server's copies is unknown."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Division:
    """How one frame is computed with a server.

    Attributes:
        peer: the connection to the server.
        partition: which rows each machine computes.
    """

    peer: RemotePeer
    partition: Partition

    @property
    def is_alone(self) -> bool:
        """Whether this machine computes the whole frame itself, and the server is only brought up to date."""
        return not self.peer.is_awaited


class SharedProgram:
    """A robot's program, which a server may help to run.

    Attributes:
        program: the program.
        space: its possible partitions.
        was_shared: whether the last frame was computed together with a server.
        complaint: why it was not, although it should have been; empty where nothing failed.
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
        self._epoch = -1  # the epoch for which the masks of the server's copies hold
        self._shift, self._outside = NO_SHIFT, Border.NONE  # since the last frame that was shared
        self._ran_alone = False  # since the last frame that was shared
        self._holds_received = False  # whether rows of a server may be in the cache
        # whether the dtypes of all tensors that may come from a server are known, as those of feature maps always are
        self._knows_types = all(name in program.maps for name in self.space.heights)

    def moved(self, dx: int, dy: int) -> None:
        """Record that everything was moved right by dx and down by dy pixels of the input."""
        self._shift = self._shift[0] + dx, self._shift[1] + dy

    def forget_server(self) -> None:
        """Take all of the server's copies for stale."""
        self._replicas.forget_remote()
        self._shift, self._outside = NO_SHIFT, Border.NONE

    def divide(self, peer: RemotePeer) -> Division | None:
        """Ask a peer how to share the frame that has just been written; None: the robot computes it alone."""
        self._input.stale_remote |= self.program.changed_input.mask
        if peer.epoch != self._epoch:
            self.forget_server()
            self._epoch = peer.epoch
        partition = peer.choose(self._outdated()) if self._knows_types else None
        return None if partition is None else Division(peer=peer, partition=partition)

    def execute(self, *, outside: Border, refresh: bool, division: Division | None = None) -> dict[str, torch.Tensor]:
        """Do what :meth:`Program.execute` does, together with a server where the frame is divided.

        The robot computes it alone where the frame is not divided, or where the server is not awaited or fails.
        """
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
                # whatever a peer sends, the frame is computed here; an error that is not the peer's fault occurs again
                self.complaint = shortened(str(error))
                peer.fail(self.complaint)
                self._replicas.distrust_received()
                self.forget_server()
                refresh = True  # computed pixels were not compared with what the rest of the network saw
            finally:
                self._replicas.exchange = None
        self._use(self._alone)
        self._ran_alone = True
        outputs = self.program.execute(outside=outside, refresh=refresh)
        self._knows_types = True
        if self._holds_received and not _are_finite(outputs):
            # values that a server sent in earlier frames were finite, but lead to outputs that are not
            self._holds_received = False
            self._replicas.distrust_all()
            outputs = self.program.execute(outside=outside, refresh=True)
        return outputs

    def _prepare(self, peer: RemotePeer) -> None:
        """Have the server compute the whole frame from the input's changes, while this machine does so too."""
        everything = self.space.everything_at(Side.SERVER)
        try:
            self._use(everything)
            peer.begin(self._start(everything, refresh=True))
        except LinkError as error:
            self.complaint = str(error)
            peer.fail(self.complaint)
            self.forget_server()

    def _outdated(self) -> Outdated:
        changed = robot = self.program.changed_input.mask
        first = next((name for name in self.space.heights if name not in self.space.whole), None)  # has rows
        if first is not None and (stale := self._replicas[first].stale_local).any():
            robot = pooled(changed, (stale.shape[0], stale.shape[1])) | stale
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
        # A value that changed here and back again since the last shared frame is no change to the server, but is one
        # to what this machine has passed on since.
        refresh, self._ran_alone = refresh or self._ran_alone, False
        return FrameStart(partition=partition, refresh=refresh, outside=outside, shift=shift, pixels=pixels)


def _are_finite(outputs: dict[str, torch.Tensor]) -> bool:
    return all(bool(torch.isfinite(output).all()) for output in outputs.values())
