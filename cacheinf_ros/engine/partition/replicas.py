# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""What two machines know of each other's copies of a tensor that they compute together."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from cacheinf_ros.engine.execution.active import ActiveSet, Size
from cacheinf_ros.engine.execution.tensors import Tensors
from cacheinf_ros.errors import LinkError
from cacheinf_ros.geometry import overlap

Mask = NDArray[np.uint8]
Rows = tuple[int, int]
"""The first row of a map's pixels, and the one behind the last."""

# As ``ci_share`` of the compiled kernels.
_HEADER = np.dtype([("first", np.int32), ("last", np.int32), ("stale", np.uintp), ("lacking", np.uintp)])


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Patch:
    """New values of some pixels of a tensor.

    Attributes:
        rows: of the tensor's pixels, among which they lie.
        mask: uint8 [rows, width], 1 where there is one.
        is_map: whether it is of a feature map.
        values: float32 [pixels, channels] in row-major order; of what is no feature map: all of it, or nothing.
    """

    rows: Rows
    mask: Mask
    values: NDArray[Any]
    is_map: bool = True


class Exchange(Protocol):
    """The way to the other machine while a frame is computed."""

    def send(self, tensor: str, patch: Patch) -> None:
        """Send without waiting for anything."""
        ...

    def receive(self, tensor: str, rows: Rows) -> Patch:
        """Wait for what the other machine sends of a tensor; raises :class:`LinkError` if it does not come."""
        ...


class TensorReplica:
    """One tensor at one of the machines; compiled code works on the same memory.

    Attributes:
        tensor: its name.
        size: (height, width).
        stale: uint8 [height, width], 1 where this machine's copy may be out of date.
        lacking: the same of the other machine's copy, seen from this one.
        sent, received: the rows of which the other machine reads this one's values, and the other way round.
    """

    def __init__(self, tensor: str, size: Size) -> None:
        self.tensor = tensor
        self.size = size
        self.stale, self.lacking = np.ones(size, np.uint8), np.ones(size, np.uint8)
        self._header = np.array([(0, size[0], self.stale.ctypes.data, self.lacking.ctypes.data)], _HEADER)
        self.sent: Rows = (0, 0)
        self.received: Rows = (0, 0)

    @property
    def address(self) -> int:
        """Of the ``ci_share``; valid as long as this object lives."""
        return self._header.ctypes.data

    @property
    def own(self) -> Rows:
        """The rows that this machine computes."""
        return int(self._header["first"][0]), int(self._header["last"][0])

    @own.setter
    def own(self, rows: Rows) -> None:
        self._header["first"], self._header["last"] = rows

    @property
    def is_elsewhere(self) -> bool:
        """Whether this machine computes nothing of it."""
        first, last = self.own
        return first == last

    def move(self, dx: int, dy: int) -> None:
        """Both copies move right by dx and down by dy pixels; what enters is neither here nor there."""
        for mask in (self.stale, self.lacking):
            before, after = overlap(self.size, dx, dy)
            kept = mask[before].copy()
            mask.fill(1)
            mask[after] = kept

    def forget_other(self) -> None:
        """The other machine has nothing."""
        self.lacking.fill(1)

    def take_own(self, grown: ActiveSet, target: ActiveSet) -> None:
        """As :class:`LocalRows` says."""
        own = slice(*self.own)
        target.mask.fill(0)
        target.mask[own] = grown.mask[own] | self.stale[own]
        target.use_mask()
        self.stale |= grown.mask
        self.stale[own] = 0

    def pass_on(self, changed: ActiveSet, grown: ActiveSet, target: ActiveSet) -> None:
        """As :class:`Forward` says."""
        own = slice(*self.own)
        np.copyto(target.mask, grown.mask)
        target.mask[own] = changed.mask[own]
        target.use_mask()
        self.lacking |= target.mask  # what is computed elsewhere may differ from this machine's copy

    def take_lacking(self) -> Mask:
        """Which pixels of the rows that are sent the other machine lacks: they then count as known to it."""
        rows = slice(*self.sent)
        mask = self.lacking[rows].copy()
        self.lacking[rows] = 0
        return mask

    def outgoing(self, rows: torch.Tensor) -> Patch:
        """What is to be sent; it then counts as known to the other machine. ``rows``: [pixels, channels] of the map."""
        mask = self.take_lacking()
        pixels = np.flatnonzero(mask) + self.sent[0] * self.size[1]
        return Patch(rows=self.sent, mask=mask, values=rows[torch.from_numpy(pixels).to(rows.device)].cpu().numpy())

    def take_in(self, patch: Patch, rows: torch.Tensor, changed: ActiveSet) -> None:
        """Write what came; both machines' copies then agree there."""
        if patch.values.dtype != np.float32:
            raise LinkError(f"{self.tensor} is of float32, not of {patch.values.dtype}")
        pixels = torch.from_numpy(np.flatnonzero(patch.mask) + patch.rows[0] * self.size[1]).to(rows.device)
        rows[pixels] = torch.from_numpy(patch.values).to(rows.device)
        self._agreed(patch, changed)

    def _agreed(self, patch: Patch, changed: ActiveSet) -> None:
        first, last = patch.rows
        self.stale[first:last] = self.lacking[first:last] = 0
        changed.mask[first:last] = patch.mask
        changed.use_mask()

    def outgoing_value(self, value: torch.Tensor) -> Patch:
        """The same of a tensor that is no feature map: all of it, or nothing."""
        lacks = self.take_lacking()
        values = value.detach().cpu().numpy()
        return Patch(rows=self.sent, mask=lacks, values=values if lacks.any() else values.ravel()[:0], is_map=False)

    def take_in_value(self, patch: Patch, changed: ActiveSet) -> torch.Tensor | None:
        """The value that came, if one did."""
        self._agreed(patch, changed)
        return torch.from_numpy(patch.values) if patch.mask.any() else None


class TensorReplicas:
    """All tensors of a program, and the way to the other machine.

    Attributes:
        exchange: is to be set while any of them crosses.
        received: what came in this frame.
    """

    def __init__(self, shares: Mapping[str, TensorReplica]) -> None:
        self._shares = dict(shares)
        self.exchange: Exchange | None = None
        self.received: list[tuple[TensorReplica, Patch]] = []

    @classmethod
    def of(cls, shapes: Mapping[str, tuple[int, int, int]]) -> TensorReplicas:
        """Of tensors of (rows, pixels in a row, numbers in a pixel), of which nobody has anything yet."""
        return cls({name: TensorReplica(name, (rows, width)) for name, (rows, width, _) in shapes.items()})

    def distrust_received(self) -> None:
        """What came in this frame may not have been passed on: it is to be computed here."""
        for share, patch in self.received:
            share.stale[slice(*patch.rows)] |= patch.mask
        self.received = []

    def __getitem__(self, tensor: str) -> TensorReplica:
        return self._shares[tensor]

    def __iter__(self) -> Iterator[TensorReplica]:
        return iter(self._shares.values())


def prepared_send(share: TensorReplica, shares: TensorReplicas, tensors: Tensors) -> Callable[[], None]:
    """Does what :class:`Send` says."""
    buffer = tensors.maps.get(share.tensor)

    def run() -> None:
        assert shares.exchange is not None
        if buffer is not None:
            patch = share.outgoing(buffer.rows)
        else:
            patch = share.outgoing_value(tensors.values[share.tensor])
        shares.exchange.send(share.tensor, patch)

    return run


def prepared_receive(
    share: TensorReplica, changed: ActiveSet, shares: TensorReplicas, tensors: Tensors
) -> Callable[[], None]:
    """Does what :class:`Receive` says."""
    buffer = tensors.maps.get(share.tensor)

    def run() -> None:
        assert shares.exchange is not None
        patch = shares.exchange.receive(share.tensor, share.received)
        shares.received.append((share, patch))
        if buffer is not None:
            share.take_in(patch, buffer.rows, changed)
            return
        value = share.take_in_value(patch, changed)
        if value is not None:
            tensors.values[share.tensor] = value.reshape(tensors.specs[share.tensor].shape)

    return run
