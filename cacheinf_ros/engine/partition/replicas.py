# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Keeps track of which pixels of a tensor are up to date at each of two machines that compute it together."""

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
        tensor: the tensor's name.
        size: (height, width).
        stale_local: uint8 [height, width], 1 where this machine's copy may be out of date.
        stale_remote: uint8 [height, width], 1 where the other machine's copy may be, as far as this one knows.
        sent, received: the rows that are sent to the other machine, as it reads them, and those received from it.
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
        """The address of the ``ci_replica``; valid as long as this object lives."""
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
        """Whether this machine computes none of the tensor's rows."""
        first, last = self.local_rows
        return first == last

    def move(self, dx: int, dy: int) -> None:
        """Move both masks right by dx and down by dy pixels; pixels that enter are stale at both machines."""
        for mask in (self.stale_local, self.stale_remote):
            before, after = overlap(self.size, dx, dy)
            kept = mask[before].copy()
            mask.fill(1)
            mask[after] = kept

    def forget_remote(self) -> None:
        """Take all of the other machine's copy for stale."""
        self.stale_remote.fill(1)

    def take_local(self, active: ActiveSet, target: ActiveSet) -> None:
        """Do what :class:`LocalRows` describes, and update which pixels are stale here."""
        local = slice(*self.local_rows)
        target.mask.fill(0)
        target.mask[local] = active.mask[local] | self.stale_local[local]
        target.use_mask()
        self.stale_local |= active.mask
        self.stale_local[local] = 0

    def forward(self, changed: ActiveSet, active: ActiveSet, target: ActiveSet) -> None:
        """Do what :class:`Forward` describes, and take those pixels for stale at the other machine."""
        local = slice(*self.local_rows)
        np.copyto(target.mask, active.mask)
        target.mask[local] = changed.mask[local]
        target.use_mask()
        self.stale_remote |= target.mask  # what is computed elsewhere may differ from this machine's copy

    def take_stale_remote(self) -> Mask:
        """Return the pixels of the sent rows that the other machine lacks, which then count as up to date there.

        The mask is uint8 [rows, width].
        """
        rows = slice(*self.sent)
        mask = self.stale_remote[rows].copy()
        self.stale_remote[rows] = 0
        return mask

    def agree(self, patch: Patch, changed: ActiveSet) -> None:
        """Record that both machines agree on a patch's rows, in which exactly the patch's pixels have changed."""
        first, last = patch.rows
        self.stale_local[first:last] = self.stale_remote[first:last] = 0
        changed.mask[first:last] = patch.mask
        changed.use_mask()


class TensorReplicas:
    """The replicas of all tensors of a program, and the connection to the other machine.

    Attributes:
        space: the possible partitions.
        partition: which rows each machine computes; None: none was chosen yet, and all is computed here.
        exchange: the connection to the other machine; it must be set while tensors are transferred.
        received: the patches that came in this frame, each with its replica.
    """

    def __init__(self, space: PartitionSpace, side: Side) -> None:
        """Begin with everything stale at both machines; ``side``: which of the two this machine is."""
        self.space = space
        self.partition: Partition | None = None
        self.exchange: Exchange | None = None
        self.received: list[tuple[TensorReplica, Patch]] = []
        self._side = side
        self._replicas = {name: TensorReplica(name, (rows, width)) for name, (rows, width, _) in space.shapes.items()}

    def use(self, partition: Partition) -> None:
        """Divide the work by a partition from now on.

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
        """Take all of the other machine's copies for stale."""
        for replica in self:
            replica.forget_remote()

    def distrust_received(self) -> None:
        """Take what came in this frame for stale, to be computed here, as it may not have reached its readers."""
        for replica, patch in self.received:
            replica.stale_local[slice(*patch.rows)] |= patch.mask
        self.received = []

    def distrust_all(self) -> None:
        """Take all of this machine's copies for stale, so that all of them are computed anew."""
        for replica in self:
            replica.stale_local.fill(1)
        self.received = []

    def __getitem__(self, tensor: str) -> TensorReplica:
        return self._replicas[tensor]

    def __iter__(self) -> Iterator[TensorReplica]:
        return iter(self._replicas.values())
