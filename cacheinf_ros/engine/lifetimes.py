# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""When the maps that are not kept between frames are alive: what the memory planner places."""

from __future__ import annotations

import math
from collections.abc import Sequence

from cacheinf_ros.engine.caching import Caching
from cacheinf_ros.engine.execution.steps import Call, Compute, Poison, Step
from cacheinf_ros.engine.layout import Layout
from cacheinf_ros.memory import TensorRecord, aligned

ALIGNMENT = 64
"""Bytes: a cache line, and a vector of AVX-512."""


def lifetimes(
    steps: Sequence[Step], layout: Layout, caching: Caching, alignment: int = ALIGNMENT
) -> list[TensorRecord]:
    """A record for each map that is dropped; times are positions among the steps that compute.

    A map is alive from the first computation of any of its pixels to the last that reads one.
    """
    first: dict[str, int] = {}
    last: dict[str, int] = {}
    for time, step in enumerate(_computations(steps)):
        for name in (step.operator.output, *step.operator.inputs):
            root = layout.root(name)
            first.setdefault(root, time)
            last[root] = time
    return [
        TensorRecord(size=aligned(map_bytes(layout, name), alignment), first=first[name], last=last[name], name=name)
        for name in first
        if name in caching.dropped
    ]


def map_bytes(layout: Layout, name: str) -> int:
    """How many bytes a feature map takes."""
    spec = layout.spec(name)
    return spec.value_bytes * math.prod(spec.shape)


def with_poison(steps: Sequence[Step], layout: Layout, caching: Caching) -> tuple[Step, ...]:
    """The steps, and before and after the life of each map that is dropped one that overwrites it."""
    births: dict[int, list[str]] = {}
    deaths: dict[int, list[str]] = {}
    for record in lifetimes(steps, layout, caching):
        births.setdefault(record.first, []).append(record.name)
        deaths.setdefault(record.last, []).append(record.name)
    poisoned: list[Step] = []
    time = 0
    for step in steps:
        if not isinstance(step, (Compute, Call)):
            poisoned.append(step)
            continue
        poisoned += [Poison(maps=tuple(births[time]))] if time in births else []
        poisoned.append(step)
        poisoned += [Poison(maps=tuple(deaths[time]))] if time in deaths else []
        time += 1
    return tuple(poisoned)


def _computations(steps: Sequence[Step]) -> list[Compute | Call]:
    return [step for step in steps if isinstance(step, (Compute, Call))]
