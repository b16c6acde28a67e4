# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""What the scheduler is asked and may choose from, what it answers, and by which rules."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

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
    """List all of them, the most accurate first; equals in the order of the catalog and of :class:`Place`.

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


class Preference(Enum):
    """How the place is chosen; all but the first are there to compare with."""

    ACCURACY = "accuracy"  # wherever all requests to come are served most accurately, as planned with what is left
    MCDNN = "mcdnn"  # wherever the most accurate variant fits the budget of one request
    SERVER_FIRST = "server_first"  # in the cloud if any variant fits the money; what sending takes is not looked at
    DEVICE_FIRST = "device_first"  # on the device if any variant fits


class Why(Enum):
    """Why a request is served as it is, or not at all."""

    IN_CACHE = "it was in the cache"
    FITS = "the most accurate that fits the budget"
    CHEAPEST = "the cheapest: nothing fits the budget"
    USED_UP = "refused: the budget is used up"
    UNREACHABLE = "refused: no variant runs on this device, and the cloud is out of reach"


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """A model that will be asked.

    Attributes:
        catalog: its variants.
        rate_hz: how often, as expected before anything is measured; what answers must keep pace with, at least.
    """

    catalog: Catalog
    rate_hz: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """A variant to be loaded.

    Attributes:
        model: whose it is.
        option: the variant and its place; loading takes ``load_energy_j`` and ``load_money`` of its cost.
        evicts: models whose variants leave the device's memory first, beside the one that this model has.
        why: it was chosen.
    """

    model: str
    option: Option
    evicts: tuple[str, ...]
    why: Why


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """How a request is served.

    Attributes:
        model: that was asked.
        option: the variant and its place; None: the request is refused.
        why: so.
        load: what is to be loaded first; None: it is in the cache.
    """

    model: str
    option: Option | None
    why: Why
    load: Load | None = None

    @property
    def variant(self) -> Variant | None:
        """Which variant serves; None: refused."""
        return self.option.variant if self.option else None

    @property
    def place(self) -> Place | None:
        """Where it runs; None: refused."""
        return self.option.place if self.option else None

    @property
    def predicted(self) -> tuple[float, float]:
        """(J, dollars) that the request will take, loading included."""
        cost = self.option.cost if self.option else Cost()
        if self.load is None:
            return cost.energy_j, cost.money
        return cost.energy_j + cost.load_energy_j, cost.money + cost.load_money
