# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The active sets of a plan in GPU memory, where kernels fill them and read their sizes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch

from cacheinf_ros.engine.execution.active import ActiveSet

_NUMBER_BYTES = 4


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DeviceSet:
    """One active set of all cameras, in GPU memory.

    Attributes:
        mask: uint8 [cameras * pixels], 1 where active.
        listed: int32 [cameras * pixels]: the active pixels in no particular order, filled only where a step reads it.
        count: int32 [1], how many are active; with several cameras [1 + cameras], then followed by each one's number.
        first_count: the position of the set's first count among all counts.
        cameras: the number of cameras.
    """

    mask: torch.Tensor
    listed: torch.Tensor
    count: torch.Tensor
    first_count: int
    cameras: int

    @property
    def pixels(self) -> int:
        """The number of pixels of all cameras, active or not."""
        return len(self.mask)

    @property
    def of_one(self) -> int:
        """The number of pixels of one camera, active or not."""
        return len(self.mask) // self.cameras


class DeviceSets:
    """All sets of a plan, for one camera or for several with the same plan.

    An :class:`ActiveSet` on the host belongs to one camera; here it is a part of a set of all cameras.

    Attributes:
        counts: int32, the counts of all sets in the order in which they were given: see :class:`DeviceSet`.
        flags: int32 [cameras]: see :class:`.set_launches.SetLaunches`; set to 0 when the sets are cleared.
    """

    def __init__(self, sets: Sequence[ActiveSet], device: torch.device, cameras: int) -> None:
        """Allocate empty sets; counts, flags and masks share one block, so that one call clears all.

        Args:
            sets: the sets of any one of the cameras.
            device: where they are allocated.
            cameras: the number of cameras.
        """
        self._hosts: dict[int, list[ActiveSet]] = {}
        hosts = _unlike(sets)
        self._position = {id(host): position for position, host in enumerate(hosts)}
        sizes = [cameras * host.pixels for host in hosts]
        width = 1 if cameras == 1 else 1 + cameras
        counts, flags = _NUMBER_BYTES * width * len(sizes), _NUMBER_BYTES * cameras
        self._block = torch.zeros(counts + flags + sum(sizes), dtype=torch.uint8, device=device)
        self.counts = self._block[:counts].view(torch.int32)
        self.flags = self._block[counts : counts + flags].view(torch.int32)
        masks = self._block[counts + flags :].split(sizes)
        self._sets = [
            DeviceSet(
                mask=mask,
                listed=torch.zeros(len(mask), dtype=torch.int32, device=device),
                count=count,
                first_count=width * i,
                cameras=cameras,
            )
            for i, (mask, count) in enumerate(zip(masks, self.counts.split(width), strict=True))
        ]

    def __getitem__(self, host: ActiveSet) -> DeviceSet:
        """Return the device's set for a host's; ``host``: one of the sets that were given to the constructor."""
        return self._sets[self._position[id(host)]]

    def seat(self, camera: int, sets: Sequence[ActiveSet]) -> None:
        """Let these be a camera's sets from now on, in the same order as the sets given to the constructor."""
        self._hosts[camera] = _unlike(sets)

    def clear(self) -> None:
        """Empty all sets."""
        self._block.zero_()

    def upload(self, host: ActiveSet, camera: int) -> None:
        """Copy a camera's mask of a set to the device; ``host`` selects the set as in :meth:`__getitem__`."""
        position = self._position[id(host)]
        own = self._hosts[camera][position]
        mask = torch.from_numpy(own.mask).view(-1) if own.device_mask is None else own.device_mask.view(-1)
        self._sets[position].mask.view(-1, len(mask))[camera].copy_(mask, non_blocking=True)

    def tell_hosts(self, cameras: Iterable[int]) -> None:
        """Set the counts of these cameras' sets on the host, whose masks stay as they are; waits for the device."""
        counts = self.counts.view(len(self._sets), -1)
        for camera in cameras:
            own = counts[:, 0 if counts.shape[1] == 1 else 1 + camera].tolist()
            for host, count in zip(self._hosts[camera], own, strict=True):
                host.count = count


def _unlike(sets: Sequence[ActiveSet]) -> list[ActiveSet]:
    """Return the distinct sets, in the order of their first occurrence."""
    return list({id(each): each for each in sets}.values())
