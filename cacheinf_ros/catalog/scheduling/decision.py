# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The scheduler's demands, options and answers, and the preferences among places."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from cacheinf_ros.catalog.variant import Catalog, Cost, Place, Variant
from cacheinf_ros.errors import CatalogError


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """A variant in a place where it can run.

    Attributes:
        variant, place: what is executed, and where.
        cost: cost of the variant in this place.
        device_share: t_n of algorithm 1, the fraction of the execution that the device does: 1 on the device, 0 in the
            cloud.
    """

    variant: Variant
    place: Place
    cost: Cost
    device_share: float


def options_of(catalog: Catalog) -> tuple[Option, ...]:
    """List all options, the most accurate first; equally accurate ones in the order of the catalog and places.

    Raises:
        CatalogError: there is no option, or how a split variant is divided cannot be derived from its costs.
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
    if cloud.money > 0:  # payment is proportional to the server's time
        return 1.0 - min(1.0, split.money / cloud.money)
    if device.energy_j > 0:
        return min(1.0, split.energy_j / device.energy_j)
    raise CatalogError(
        f"variant {variant.name!r} can be split, but what it costs undivided is unknown: add its money in the cloud or "
        "its energy on the device"
    )


class Preference(Enum):
    """How the place of a request is chosen; all but the first serve as baselines."""

    ACCURACY = "accuracy"  # wherever all requests to come are served most accurately, as planned with what is left
    MCDNN = "mcdnn"  # wherever the most accurate variant fits the budget of one request
    SERVER_FIRST = "server_first"  # in the cloud if any variant fits the money, whatever energy sending takes
    DEVICE_FIRST = "device_first"  # on the device if any variant fits


class Why(Enum):
    """Why a request is served as it is, or not at all."""

    IN_CACHE = "it was in the cache"
    FITS = "the most accurate that fits the budget"
    CHEAPEST = "the cheapest: nothing fits the budget"
    USED_UP = "refused: the budget is used up"
    UNREACHABLE = "refused: no variant runs on this device, and the cloud is out of reach"
    LEFT_OUT = "refused: no variant that can be reached could be loaded; the log says why, they are tried again soon"


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """A model for which requests will come.

    Attributes:
        catalog: its variants.
        rate_hz: expected rate of requests, before any is measured; answers must at least keep pace with it.
    """

    catalog: Catalog
    rate_hz: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """A variant to be loaded.

    Attributes:
        model: the model that the variant is of.
        option: the variant and its place; loading takes ``load_energy_j`` and ``load_money`` of its cost.
        evicts: other models whose variants are evicted from the device's memory first.
        why: why the variant was chosen.
    """

    model: str
    option: Option
    evicts: tuple[str, ...]
    why: Why


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """How a request is served.

    Attributes:
        model: the model that the request is for.
        option: the variant and its place; None: the request is refused.
        why: why the request is served so.
        load: what is to be loaded first; None: nothing, the variant is in the cache.
    """

    model: str
    option: Option | None
    why: Why
    load: Load | None = None

    @property
    def variant(self) -> Variant | None:
        """The variant that serves the request; None: the request is refused."""
        return self.option.variant if self.option else None

    @property
    def place(self) -> Place | None:
        """The place where the request is served; None: the request is refused."""
        return self.option.place if self.option else None

    @property
    def predicted(self) -> tuple[float, float]:
        """The predicted (J, dollars) of the request, loading included."""
        cost = self.option.cost if self.option else Cost()
        if self.load is None:
            return cost.energy_j, cost.money
        return cost.energy_j + cost.load_energy_j, cost.money + cost.load_money
