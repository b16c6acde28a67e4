# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The nodes' parameters for catalogs of models and their budgets."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable
from dataclasses import replace
from enum import Enum
from functools import partial
from pathlib import Path
from typing import Self

from pydantic import ConfigDict, field_validator, model_validator

from cacheinf_ros.catalog.catalog_folder import CatalogFolder, read_catalog
from cacheinf_ros.catalog.prices import PriceConfig
from cacheinf_ros.catalog.scheduling.budgets import Budget
from cacheinf_ros.catalog.scheduling.decision import Demand, Preference
from cacheinf_ros.catalog.specialists.specialist_folder import reserving
from cacheinf_ros.catalog.variant import Catalog, Place
from cacheinf_ros.config import Config, parameter, setting, unlisted
from cacheinf_ros.errors import CatalogError, ConfigError

_RATES_HZ = (0.001, 1000.0)
_price = partial(unlisted, low=0.0, high=1e3)


class CatalogPolicy(Enum):
    """Where requests are served; all but the first serve as baselines."""

    ACCURACY = "accuracy"
    """Wherever all requests to come are served most accurately with what is left of the budget."""
    MCDNN = "mcdnn"
    """Wherever the most accurate variant fits the budget of one request, as in MCDNN."""
    SERVER_FIRST = "server_first"
    """By the server if any variant fits the money, whatever energy sending takes; else split, else on the device."""
    DEVICE_FIRST = "device_first"
    """On the device if any variant fits; else split, else by the server."""
    SERVER_ONLY = "server_only"
    """By the server, or not at all."""
    DEVICE_ONLY = "device_only"
    """On the device, or not at all."""

    @property
    def preference(self) -> Preference:
        """The scheduler's preference among the places that are allowed."""
        return Preference(self.value) if self.value in {p.value for p in Preference} else Preference.ACCURACY

    def places(self, *, use_server: bool) -> frozenset[Place]:
        """Return the places where requests may be served."""
        left_out: dict[CatalogPolicy, set[Place]] = {
            CatalogPolicy.SERVER_ONLY: {Place.SPLIT, Place.DEVICE},
            CatalogPolicy.DEVICE_ONLY: {Place.SPLIT, Place.CLOUD},
        }
        return frozenset(Place) - left_out.get(self, set()) - (set() if use_server else {Place.SPLIT, Place.CLOUD})


_log = logging.getLogger(__name__)


_MOST_CATALOGS = 64


class CatalogFoldersConfig(Config):
    """The parameter that names the catalogs."""

    model_config = ConfigDict(validate_default=True)  # the default is ROS's, not ours

    catalogs: tuple[str, ...] = parameter(
        ("",),
        "folders that `cacheinf catalog build` has written, one per model; each names its model; empty: none",
        live=True,
    )

    @field_validator("catalogs", mode="before")
    @classmethod
    def _without_empty(cls, value: Iterable[str]) -> tuple[str, ...]:
        named = tuple(folder for folder in value if folder)  # ROS has no empty array of strings
        if len(named) > _MOST_CATALOGS:
            raise ValueError(f"{len(named)} catalogs: {_MOST_CATALOGS} are the most")
        return named

    @property
    def loads_variants(self) -> bool:
        """Whether this node loads variants, whole or in part."""
        return True

    def read(self, *, int8: bool = False, compares: bool = True) -> tuple[CatalogFolder, ...]:
        """Read all catalogs.

        Args:
            int8: whether to keep the variants in int8; servers, for instance, do not run them.
            compares: see :func:`read_catalog`.

        Raises:
            CatalogError: a catalog cannot be read, or two are for the same model.
        """
        folders = tuple(read_catalog(Path(folder).expanduser(), compares=compares) for folder in self.catalogs)
        names = [folder.file.name for folder in folders]
        for name in names:
            if names.count(name) > 1:
                raise CatalogError(f"two catalogs are for {name!r}: change `name` in the catalog.yaml of one of them")
        if int8 or not any(entry.int8 for folder in folders for entry in folder.file.variants):
            return folders
        _log.info("variants in int8 are left out: they are for robots with device cpu and compiled kernels")
        return tuple(folder.without_int8 for folder in folders)


class CatalogServerConfig(CatalogFoldersConfig):
    """The parameters by which a server serves robots with catalogs."""

    catalog_memory_mb: float = parameter(
        2000.0,
        "memory for variants from catalogs, of all robots together, 10**6 bytes; idle ones make room for others",
        low=1.0,
        high=1e7,
        name="server.catalog_memory_mb",
    )


class CatalogBudgetConfig(Config):
    """The parameters of the requests' budget and of the server's prices."""

    energy_budget_j: float = parameter(
        math.inf, "energy that requests may take until the horizon, J; .inf: without a limit", low=0.0, live=True
    )
    cloud_budget: float = parameter(
        math.inf, "what the server may be paid until the horizon, dollars; .inf: without a limit", low=0.0, live=True
    )
    budget_horizon_s: float = parameter(
        36_000.0,
        "how long the budgets are to last, s; a change of it or of a budget begins anew",
        low=1.0,
        high=1e8,
        live=True,
    )
    price_server_s: float = _price(
        PriceConfig().price_server_s, "dollars per second of the server's time", name="server.price_s"
    )
    price_mb: float = _price(
        PriceConfig().price_mb, "dollars per 10**6 bytes to and from the server", name="server.price_mb"
    )
    price_most: float = unlisted(
        10.0,
        "times its usual price that a busy server costs at most; 1: prices do not follow its load",
        low=1.0,
        high=1000.0,
        name="server.price_most",
    )

    @property
    def budget(self) -> Budget:
        """The budget, which counts from now on."""
        return Budget(energy_j=self.energy_budget_j, money=self.cloud_budget, horizon_s=self.budget_horizon_s)

    @property
    def prices(self) -> PriceConfig:
        """The server's prices."""
        return PriceConfig(price_server_s=self.price_server_s, price_mb=self.price_mb)


class CatalogConfig(CatalogFoldersConfig):
    """The parameters that say which models are asked, at which rates, and where."""

    rates: tuple[float, ...] = parameter((1.0,), "how often each model is asked, Hz; or one rate for all", live=True)
    device_memory_mb: float = parameter(600.0, "memory for variants on this device, 10**6 bytes", low=0.0, high=1e6)
    policy: CatalogPolicy = parameter(
        CatalogPolicy.ACCURACY,
        "where requests are served: accuracy (wherever all to come are served most accurately with what is left), "
        "server_first, device_first; mcdnn, server_only, device_only: what it is compared with",
    )
    specialise: bool = parameter(
        True,
        "have a specialist answer before a variant on this device while few classes dominate, where the catalog was "
        "built with --specialise",
        live=True,
    )
    specialise_together: bool = parameter(
        False,
        "tell other robots that ask the same models what classes were answered, and listen to them (/class_counts): a "
        "specialist comes sooner, and also for models that are asked about once a second",
    )
    share_operators: bool = setting(
        True, "run leading operators that models on this device have in common once, where they are asked at one rate"
    )
    use_server: bool = parameter(
        False, "have a server with the same catalogs serve requests too, whole or in part", name="server.use"
    )
    load_deadline_ms: float = unlisted(
        5000.0,
        "time for the server to load a variant, beside server.deadline_ms, ms",
        low=0.0,
        high=600_000.0,
        name="server.load_deadline_ms",
    )

    @field_validator("rates", mode="before")
    @classmethod
    def _listed(cls, value: Iterable[float]) -> tuple[float, ...]:
        return tuple(value)  # rclpy passes an array

    @model_validator(mode="after")
    def _fitting(self) -> Self:
        low, high = _RATES_HZ
        if not all(low <= rate <= high for rate in self.rates):  # also for NaN
            raise ValueError(f"rates of {list(self.rates)} Hz: give rates from {low:g} to {high:g}")
        if len(self.rates) not in (1, len(self.catalogs)):
            raise ValueError(
                f"{len(self.rates)} rates for {len(self.catalogs)} catalogs: give one for each, or one for all"
            )
        return self

    @property
    def rates_hz(self) -> tuple[float, ...]:
        """The rate of each catalog's model, Hz."""
        return self.rates * len(self.catalogs) if len(self.rates) == 1 else self.rates

    @property
    def places(self) -> frozenset[Place]:
        """The places where requests may be served."""
        return self.policy.places(use_server=self.use_server)

    @property
    def loads_variants(self) -> bool:
        """Whether requests may be served on this device, whole or in part."""
        return not self.places.isdisjoint({Place.DEVICE, Place.SPLIT})

    def demands(self, folders: Iterable[CatalogFolder]) -> tuple[Demand, ...]:
        """Return the models and their rates for the scheduler.

        Raises:
            ConfigError: there is no catalog, or no place where requests may be served.
            CatalogError: no variant of a model runs where requests may be served, or a specialist's file is unreadable.
        """
        if not self.places:
            raise ConfigError(f"policy {self.policy.value} needs a server: set server.use: true")
        demands = tuple(
            Demand(catalog=in_places(reserving(folder), self.places), rate_hz=rate)
            for folder, rate in zip(folders, self.rates_hz, strict=True)
        )
        if not demands:
            raise ConfigError("catalogs is empty: name folders that `cacheinf catalog build` has written")
        return demands


def in_places(catalog: Catalog, places: frozenset[Place]) -> Catalog:
    """Return the catalog with these places only; raises :class:`CatalogError` where no variant is left."""
    reduced = (
        replace(variant, costs={place: cost for place, cost in variant.costs.items() if place in places})
        for variant in catalog.variants
    )
    variants = tuple(variant for variant in reduced if variant.costs)
    if not variants:
        wanted = ", ".join(sorted(place.value for place in places))
        raise CatalogError(f"catalog {catalog.model!r}: no variant runs in: {wanted}; allow other places")
    return replace(catalog, variants=variants)
