# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Which variant of each model is ready, and the device's memory for them (algorithm 1, lines 44 to 52)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
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


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedPart:
    """Leading operators that variants of several models have in common, and that run once for all of them.

    Attributes:
        variants: names, by model.
        size: bytes that each of the variants would take for them alone.
    """

    variants: Mapping[str, str]
    size: int

    def bytes_saved(self, residents: Mapping[str, Resident]) -> int:
        """What those of the variants that are among the residents on the device save together."""
        sharing = sum(
            resident.option.place is Place.DEVICE and self.variants.get(model) == resident.option.variant.name
            for model, resident in residents.items()
        )
        return self.size * max(0, sharing - 1)


class LoadedVariants:
    """Holds at most one variant per model; those on the device, whole or in part, share its memory.

    Attributes:
        capacity: bytes of the device's memory; the cloud's is without limit.
    """

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self._of: dict[str, Resident] = {}  # the least recently used first
        self._shared: tuple[SharedPart, ...] = ()

    @property
    def used(self) -> int:
        """Bytes of the device's memory; what several variants share counts once."""
        return self._used(self._of)

    def share(self, parts: Iterable[SharedPart]) -> None:
        """These parts are shared from now on, for as long as what shares them is loaded."""
        self._shared = tuple(parts)

    def _used(self, residents: Mapping[str, Resident]) -> int:
        apart = sum(device_bytes(resident.option) for resident in residents.values())
        return apart - sum(part.bytes_saved(residents) for part in self._shared)

    def get(self, model: str) -> Resident | None:
        """What is ready for a model."""
        return self._of.get(model)

    def touch(self, model: str) -> None:
        """It is used now."""
        self._of[model] = self._of.pop(model)

    def in_the_way(self, model: str, option: Option, kept: Collection[str] = ()) -> tuple[str, ...]:
        """Models to evict before the option fits in place of what the model has, the least recently used first.

        Args:
            kept: models that leave only after all others.

        Raises:
            CatalogError: it does not fit alone.
        """
        needed = device_bytes(option)
        if needed > self.capacity:
            raise CatalogError(
                f"variant {option.variant.name!r} of {model!r} takes {needed} bytes, the device has {self.capacity}: "
                "leave it out, or give the device more memory"
            )
        others = {other: resident for other, resident in self._of.items() if other != model}
        evicted: list[str] = []
        for other in sorted(others, key=lambda other: other in kept):
            if self._used(others) + needed <= self.capacity:
                break
            if device_bytes(others[other].option):
                evicted.append(other)
                del others[other]
        return tuple(evicted)

    def put(self, model: str, option: Option, evicts: Iterable[str], now_s: float) -> None:
        """The option is loaded in place of what the model had, and of other models' that :meth:`in_the_way` names."""
        for other in evicts:
            del self._of[other]
        self._of.pop(model, None)
        self._of[model] = Resident(option=option, loaded_s=now_s)


def device_bytes(option: Option) -> int:
    """Bytes that an option takes of the device's memory while it is loaded."""
    return 0 if option.place is Place.CLOUD else option.cost.memory_bytes
