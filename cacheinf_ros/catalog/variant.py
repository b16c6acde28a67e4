# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Variants of a model, and what each costs in each place where it can run.

Section 5.1 of "MCDNN: An Approximation-Based Execution Framework for Deep Stream Processing Under Resource
Constraints" (MobiSys 2016).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import astuple, dataclass, field
from enum import Enum


class Place(Enum):
    """Where a request is executed."""

    DEVICE = "device"
    SPLIT = "split"  # the first operators on the device, the rest in the cloud
    CLOUD = "cloud"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What one variant costs in one place.

    Attributes:
        energy_j: taken from the device's battery per request, sending and receiving included.
        money: paid to the cloud per request, dollars.
        latency_ms: time from frame to result.
        memory_bytes: memory taken on the device while the variant is loaded.
        load_energy_j: taken from the device's battery once, by loading.
        load_money: paid to the cloud once, by loading, dollars.
        load_ms: how long loading takes; 0: unknown.
    """

    energy_j: float = 0.0
    money: float = 0.0
    latency_ms: float = 0.0
    memory_bytes: int = 0
    load_energy_j: float = 0.0
    load_money: float = 0.0
    load_ms: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """One way to compute what a model computes.

    Attributes:
        name: unique within the catalog.
        accuracy: in [0, 1], on the data that the catalog was built with.
        technique: how the variant was derived; "" for the original.
        costs: the cost in each place where the variant can run.
    """

    name: str
    accuracy: float
    technique: str = ""
    costs: Mapping[Place, Cost] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Catalog:
    """The variants of one model.

    Attributes:
        model: the name by which requests ask for the model.
        variants: at least one; the original is the one without a technique.
    """

    model: str
    variants: tuple[Variant, ...]

    def find(self, name: str) -> Variant | None:
        """Return the variant of this name, or None."""
        return next((variant for variant in self.variants if variant.name == name), None)


def dominates(one: Variant, other: Variant) -> bool:
    """Tell whether one variant is at least as accurate and as cheap everywhere as the other, and better in one way."""
    if one.accuracy < other.accuracy or not set(other.costs) <= set(one.costs):
        return False
    ours = [value for place in other.costs for value in _values(one.costs[place])]
    theirs = [value for place in other.costs for value in _values(other.costs[place])]
    return all(a <= b for a, b in zip(ours, theirs, strict=True)) and (one.accuracy > other.accuracy or ours != theirs)


def pareto_front(variants: Iterable[Variant]) -> tuple[Variant, ...]:
    """Return the variants that no other one dominates, the most accurate first."""
    everyone = tuple(variants)
    kept = [one for one in everyone if not any(dominates(other, one) for other in everyone)]
    return tuple(sorted(kept, key=lambda variant: -variant.accuracy))


def _values(cost: Cost) -> tuple[float, ...]:
    return astuple(cost)
