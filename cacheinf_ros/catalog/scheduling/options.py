# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The places in which a model's variants can run, side by side."""

from __future__ import annotations

from dataclasses import dataclass

from cacheinf_ros.catalog.variant import Catalog, Cost, Place, Variant
from cacheinf_ros.errors import CatalogError


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """A variant in a place.

    Attributes:
        variant, place: what is executed, and where.
        cost: of it there.
        device_share: t_n of algorithm 1, the fraction of the execution that the device does: 1 on the device, 0 in the
            cloud.
    """

    variant: Variant
    place: Place
    cost: Cost
    device_share: float


def options_of(catalog: Catalog) -> tuple[Option, ...]:
    """All of them, the most accurate first; of equals in the order of the catalog and of :class:`Place`.

    Raises:
        CatalogError: there is none, or it cannot be told how a split variant is divided.
    """
    found = [
        Option(variant=variant, place=place, cost=variant.costs[place], device_share=_device_share(variant, place))
        for variant in catalog.variants
        for place in Place
        if place in variant.costs
    ]
    if not found:
        raise CatalogError(f"catalog {catalog.model!r}: no variant has a place to run; measure one with its costs")
    return tuple(sorted(found, key=lambda option: -option.variant.accuracy))


def _device_share(variant: Variant, place: Place) -> float:
    if place is not Place.SPLIT:
        return 1.0 if place is Place.DEVICE else 0.0
    split, cloud, device = (variant.costs.get(where, Cost()) for where in (Place.SPLIT, Place.CLOUD, Place.DEVICE))
    if cloud.money > 0:  # what is paid is in proportion to the server's time
        return 1.0 - min(1.0, split.money / cloud.money)
    if device.energy_j > 0:
        return min(1.0, split.energy_j / device.energy_j)
    raise CatalogError(
        f"variant {variant.name!r} can be split, but what it costs undivided is unknown: add its money in the cloud or "
        "its energy on the device"
    )
