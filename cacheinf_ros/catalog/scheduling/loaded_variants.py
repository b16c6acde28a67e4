# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The loaded variant of each model, and the device memory that they take (algorithm 1, lines 44 to 52)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass

from cacheinf_ros.catalog.scheduling.decision import Option
from cacheinf_ros.catalog.variant import Place
from cacheinf_ros.errors import CatalogError


@dataclass(frozen=True, slots=True, kw_only=True)
class Resident:
    """A variant that is loaded: on the device, split, or in the cloud.

    Attributes:
        option: the variant and its place.
        loaded_s: when the variant was loaded.
    """

    option: Option
    loaded_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedPart:
    """Leading operators that variants of several models have in common and that run once for all of them.

    Attributes:
        variants: for each model, the name of its variant.
        size: bytes that the operators take in each variant by itself.
    """

    variants: Mapping[str, str]
    size: int

    def bytes_saved(self, residents: Mapping[str, Resident]) -> int:
        """Return the bytes saved by the variants that are among the residents on the device."""
        sharing = sum(
            resident.option.place is Place.DEVICE and self.variants.get(model) == resident.option.variant.name
            for model, resident in residents.items()
        )
        return self.size * max(0, sharing - 1)


class LoadedVariants:
    """The loaded variants, at most one per model; those on the device, whole or in part, share its memory.

    Attributes:
        capacity: bytes of the device's memory; the cloud's is unlimited.
    """

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self._of: dict[str, Resident] = {}  # the least recently used first
        self._shared: tuple[SharedPart, ...] = ()

    @property
    def used(self) -> int:
        """The bytes of device memory in use; what several variants share counts once."""
        return self._used(self._of)

    def share(self, parts: Iterable[SharedPart]) -> None:
        """Replace the shared parts; each counts while at least two of its variants are loaded."""
        self._shared = tuple(parts)

    def _used(self, residents: Mapping[str, Resident]) -> int:
        apart = sum(device_bytes(resident.option) for resident in residents.values())
        return apart - sum(part.bytes_saved(residents) for part in self._shared)

    def get(self, model: str) -> Resident | None:
        """Return the variant that is loaded for a model, or None."""
        return self._of.get(model)

    def remove(self, model: str) -> None:
        """Count the model's variant, if it has one, as loaded no more."""
        self._of.pop(model, None)

    def touch(self, model: str) -> None:
        """Mark the model's variant as the most recently used."""
        self._of[model] = self._of.pop(model)

    def in_the_way(self, model: str, option: Option, kept: Collection[str] = ()) -> tuple[str, ...]:
        """Return the models to evict so that the option fits, the least recently used first.

        Args:
            model: the model whose variant the option replaces.
            kept: models that are evicted only after all others.

        Raises:
            CatalogError: the option does not fit even alone.
        """
        needed = device_bytes(option)
        if needed > self.capacity:
            raise CatalogError(
                f"variant {option.variant.name!r} of {model!r} takes {needed} bytes, the device has {self.capacity}: "
                "leave it out, or give the device more memory"
            )
        return self._in_the_way(model, lambda others: self._used(others) + needed, kept)

    def too_many(self, model: str, kept: Collection[str] = ()) -> tuple[str, ...]:
        """Return the models to evict so that what is loaded fits, as variants share less than they did.

        Args:
            model: the model whose variant stays.
            kept: models that are evicted only after all others.
        """
        stays = {model: self._of[model]} if model in self._of else {}
        return self._in_the_way(model, lambda others: self._used({**others, **stays}), kept)

    def _in_the_way(
        self, model: str, needed: Callable[[Mapping[str, Resident]], int], kept: Collection[str]
    ) -> tuple[str, ...]:
        """Return the models to evict, the least recently used first, until what is needed beside the others fits."""
        others = {other: resident for other, resident in self._of.items() if other != model}
        evicted: list[str] = []
        for other in sorted(others, key=lambda other: other in kept):
            if needed(others) <= self.capacity:
                break
            if device_bytes(others[other].option):
                evicted.append(other)
                del others[other]
        return tuple(evicted)

    def put(self, model: str, option: Option, evicts: Iterable[str], now_s: float) -> None:
        """Replace the model's variant by the option, and evict the models that :meth:`in_the_way` returned."""
        for other in evicts:
            del self._of[other]
        self._of.pop(model, None)
        self._of[model] = Resident(option=option, loaded_s=now_s)


def device_bytes(option: Option) -> int:
    """Return the bytes of device memory that an option takes while it is loaded."""
    return 0 if option.place is Place.CLOUD else option.cost.memory_bytes
