# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The active sets of a plan in the memory of a GPU, where kernels fill them and read their sizes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from cacheinf_ros.engine.execution.active import ActiveSet

_COUNT_BYTES = 4


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DeviceSet:
    """One set.

    Attributes:
        mask: uint8 [pixels], 1 where active.
        listed: int32 [pixels]: the active ones, in no particular order, where somebody asks for them.
        count: int32 [1]: how many are active.
        number: the position of its count among all counts.
    """

    mask: torch.Tensor
    listed: torch.Tensor
    count: torch.Tensor
    number: int

    @property
    def pixels(self) -> int:
        """Active or not."""
        return len(self.mask)


class DeviceSets:
    """All sets of a plan. What host code knows as an :class:`ActiveSet` has its twin here.

    Attributes:
        counts: int32 [sets], of each set in the order in which they were given.
    """

    def __init__(self, sets: Sequence[ActiveSet], device: torch.device) -> None:
        """Allocate them, empty; counts and masks in one block, so that one call empties all."""
        self._hosts = list({id(host): host for host in sets}.values())
        sizes = [host.pixels for host in self._hosts]
        counts = _COUNT_BYTES * len(sizes)
        self._block = torch.zeros(counts + sum(sizes), dtype=torch.uint8, device=device)
        self.counts = self._block[:counts].view(torch.int32)
        masks = self._block[counts:].split(sizes)
        self._sets = {
            id(host): DeviceSet(
                mask=mask,
                listed=torch.zeros(host.pixels, dtype=torch.int32, device=device),
                count=self.counts[i : i + 1],
                number=i,
            )
            for i, (host, mask) in enumerate(zip(self._hosts, masks, strict=True))
        }

    def __getitem__(self, host: ActiveSet) -> DeviceSet:
        """The twin of a set."""
        return self._sets[id(host)]

    def clear(self) -> None:
        """Empty all sets."""
        self._block.zero_()

    def tell_hosts(self) -> None:
        """Let the sets of the host know how many pixels are active: waits for the device. Their masks stay as they
        are.
        """
        for host, count in zip(self._hosts, self.counts.tolist(), strict=True):
            host.count = count
