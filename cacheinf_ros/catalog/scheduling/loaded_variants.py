# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Which variant of each model is ready, and the device's memory for them (algorithm 1, CACHEINSERT)."""

from __future__ import annotations

from dataclasses import dataclass

from cacheinf_ros.catalog.scheduling.decision import Option
from cacheinf_ros.catalog.variant import Place
from cacheinf_ros.errors import CatalogError


@dataclass(frozen=True, slots=True, kw_only=True)
class Resident:
    """A variant that is ready: on the device, split, or in the cloud.

    Attributes:
        option: the variant and its place.
        loaded_s: when it was loaded.
    """

    option: Option
    loaded_s: float


class LoadedVariants:
    """At most one variant per model; those on the device, whole or in part, share its memory.

    Attributes:
        capacity: bytes of the device's memory; the cloud's is without limit.
    """

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self._of: dict[str, Resident] = {}  # the least recently used first

    @property
    def used(self) -> int:
        """Bytes of the device's memory."""
        return sum(device_bytes(resident.option) for resident in self._of.values())

    def get(self, model: str) -> Resident | None:
        """What is ready for a model."""
        return self._of.get(model)

    def touch(self, model: str) -> None:
        """It is used now."""
        self._of[model] = self._of.pop(model)

    def in_the_way(self, model: str, option: Option) -> tuple[str, ...]:
        """Models to evict before the option fits in place of what the model has, the least recently used first.

        Raises:
            CatalogError: it does not fit alone.
        """
        needed = device_bytes(option)
        if needed > self.capacity:
            raise CatalogError(
                f"variant {option.variant.name!r} of {model!r} takes {needed} bytes, the device has {self.capacity}: "
                "leave it out, or give the device more memory"
            )
        current = self._of.get(model)
        excess = self.used - (device_bytes(current.option) if current else 0) + needed - self.capacity
        evicted = []
        for other, resident in self._of.items():
            if excess <= 0:
                break
            if other != model and (freed := device_bytes(resident.option)):
                evicted.append(other)
                excess -= freed
        return tuple(evicted)

    def put(self, model: str, option: Option, now_s: float) -> None:
        """The option is loaded in place of what the model had, and of what :meth:`in_the_way` names."""
        for other in self.in_the_way(model, option):
            del self._of[other]
        self._of.pop(model, None)
        self._of[model] = Resident(option=option, loaded_s=now_s)


def device_bytes(option: Option) -> int:
    """Bytes that an option takes of the device's memory while it is loaded."""
    return 0 if option.place is Place.CLOUD else option.cost.memory_bytes
