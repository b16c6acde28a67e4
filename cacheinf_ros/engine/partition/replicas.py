# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""What two machines know of each other's copies of the tensors that they compute together."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from cacheinf_ros.engine.execution.active import ActiveSet, Size
from cacheinf_ros.engine.kernels.abi import CReplica
from cacheinf_ros.engine.partition.exchange import Exchange, Patch
from cacheinf_ros.engine.partition.partition import Partition, PartitionSpace, Rows, Side
from cacheinf_ros.geometry import overlap

Mask = NDArray[np.uint8]


class TensorReplica:
    """One tensor at one of the machines; compiled code works on the same memory.

    Attributes:
        tensor: its name.
        size: (height, width).
        stale_local: uint8 [height, width], 1 where this machine's copy may be out of date.
        stale_remote: the same of the other machine's copy, seen from this one.
        sent, received: the rows of which the other machine reads this one's values, and the other way round.
    """

    def __init__(self, tensor: str, size: Size) -> None:
        self.tensor = tensor
        self.size = size
        self.stale_local, self.stale_remote = np.ones(size, np.uint8), np.ones(size, np.uint8)
        self._header = CReplica(0, size[0], self.stale_local.ctypes.data, self.stale_remote.ctypes.data)
        self.sent: Rows = (0, 0)
        self.received: Rows = (0, 0)

    @property
    def address(self) -> int:
        """Address of the ``ci_replica``; valid as long as this object lives."""
        return ctypes.addressof(self._header)

    @property
    def local_rows(self) -> Rows:
        """The rows that this machine computes."""
        return self._header.first_row, self._header.last_row

    @local_rows.setter
    def local_rows(self, rows: Rows) -> None:
        self._header.first_row, self._header.last_row = rows

    @property
    def is_remote(self) -> bool:
        """Whether this machine computes nothing of it."""
        first, last = self.local_rows
        return first == last

    def move(self, dx: int, dy: int) -> None:
        """Move both copies right by dx and down by dy pixels; what enters is neither here nor there."""
        for mask in (self.stale_local, self.stale_remote):
            before, after = overlap(self.size, dx, dy)
            kept = mask[before].copy()
            mask.fill(1)
            mask[after] = kept

    def forget_remote(self) -> None:
        """The other machine has nothing."""
        self.stale_remote.fill(1)

    def take_local(self, active: ActiveSet, target: ActiveSet) -> None:
        """Do what :class:`LocalRows` says."""
        local = slice(*self.local_rows)
        target.mask.fill(0)
        target.mask[local] = active.mask[local] | self.stale_local[local]
        target.use_mask()
        self.stale_local |= active.mask
        self.stale_local[local] = 0

    def forward(self, changed: ActiveSet, active: ActiveSet, target: ActiveSet) -> None:
        """Do what :class:`Forward` says."""
        local = slice(*self.local_rows)
        np.copyto(target.mask, active.mask)
        target.mask[local] = changed.mask[local]
        target.use_mask()
        self.stale_remote |= target.mask  # what is computed elsewhere may differ from this machine's copy

    def take_stale_remote(self) -> Mask:
        """Which pixels of the rows that are sent the other machine lacks: they then count as known to it."""
        rows = slice(*self.sent)
        mask = self.stale_remote[rows].copy()
        self.stale_remote[rows] = 0
        return mask

    def agree(self, patch: Patch, changed: ActiveSet) -> None:
        """Take note that both machines have what came: of these rows exactly that has changed."""
        first, last = patch.rows
        self.stale_local[first:last] = self.stale_remote[first:last] = 0
        changed.mask[first:last] = patch.mask
        changed.use_mask()


class TensorReplicas:
    """All tensors of a program, who computes what of them, and the way to the other machine.

    Attributes:
        space: what can be partitioned.
        partition: who computes what; None: nobody has said so yet, and all is computed here.
        exchange: is to be set while any of them is transferred.
        received: what came in this frame.
    """

    def __init__(self, space: PartitionSpace, side: Side) -> None:
        """Nobody has anything yet."""
        self.space = space
        self.partition: Partition | None = None
        self.exchange: Exchange | None = None
        self.received: list[tuple[TensorReplica, Patch]] = []
        self._side = side
        self._replicas = {name: TensorReplica(name, (rows, width)) for name, (rows, width, _) in space.shapes.items()}

    def use(self, partition: Partition) -> None:
        """Divide the work so from now on.

        Raises:
            EngineError: the partition cannot be executed.
        """
        self.space.check(partition)
        for replica in self:
            replica.sent = replica.received = (0, 0)
        for name, height in self.space.heights.items():
            self[name].local_rows = partition.rows_of(name, height, self._side)
        for transfer in self.space.transfers(partition):
            if transfer.to is self._side:
                self[transfer.tensor].received = transfer.rows
            else:
                self[transfer.tensor].sent = transfer.rows
        self.partition = partition

    def forget_remote(self) -> None:
        """The other machine has nothing, or nobody knows what."""
        for replica in self:
            replica.forget_remote()

    def distrust_received(self) -> None:
        """What came in this frame may not have been passed on: it is to be computed here."""
        for replica, patch in self.received:
            replica.stale_local[slice(*patch.rows)] |= patch.mask
        self.received = []

    def distrust_all(self) -> None:
        """Nothing that this machine has is believed: all of it is to be computed."""
        for replica in self:
            replica.stale_local.fill(1)
        self.received = []

    def __getitem__(self, tensor: str) -> TensorReplica:
        return self._replicas[tensor]

    def __iter__(self) -> Iterator[TensorReplica]:
        return iter(self._replicas.values())
