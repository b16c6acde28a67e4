# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""When the maps that are not kept between frames are alive: what the memory planner places."""

from __future__ import annotations

from collections.abc import Sequence

from cacheinf_ros.engine.caching import Caching
from cacheinf_ros.engine.execution.steps import Call, Compute, Poison, Step
from cacheinf_ros.engine.execution.strips import Segment
from cacheinf_ros.engine.layout import Layout
from cacheinf_ros.memory import TensorRecord, aligned

ALIGNMENT = 64
"""The alignment of maps in bytes: a cache line, and a vector of AVX-512."""


def lifetimes(
    steps: Sequence[Step],
    layout: Layout,
    caching: Caching,
    alignment: int = ALIGNMENT,
    segments: Sequence[Segment] = (),
) -> list[TensorRecord]:
    """Return a record for each map that is dropped; times are positions among the steps that compute.

    A map is alive from the first computation of any of its pixels to the last that reads one. Operators that
    are computed strip by strip together count as computed at the same time.
    """
    first: dict[str, int] = {}
    last: dict[str, int] = {}
    computations = _computations(steps)
    for times, step in zip(_times(computations, segments), computations, strict=True):
        for name in (step.operator.output, *step.operator.inputs):
            root = layout.root(name)
            first.setdefault(root, times.start)
            last[root] = times.stop - 1
    lines = {name: count for segment in segments for name, count in segment.buffers.items()}
    return [
        TensorRecord(
            size=aligned(map_bytes(layout, name, lines.get(name)), alignment),
            first=first[name],
            last=last[name],
            name=name,
        )
        for name in first
        if name in caching.dropped
    ]


def map_bytes(layout: Layout, name: str, lines: int | None = None) -> int:
    """Return how many bytes a feature map takes, or ``lines`` of its rows."""
    spec = layout.spec(name)
    height, width = spec.size
    return spec.value_bytes * spec.channels * width * (height if lines is None else lines)


def with_poison(
    steps: Sequence[Step], layout: Layout, caching: Caching, segments: Sequence[Segment] = ()
) -> tuple[Step, ...]:
    """Add steps that overwrite each map that is dropped, before and after its life."""
    births: dict[int, list[str]] = {}
    deaths: dict[int, list[str]] = {}
    for record in lifetimes(steps, layout, caching, segments=segments):
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


def _times(computations: Sequence[Compute | Call], segments: Sequence[Segment]) -> list[range]:
    """Return for each position the range of positions that are computed at the same time."""
    times = [range(time, time + 1) for time in range(len(computations))]
    place = {step.operator.output: time for time, step in enumerate(computations)} if segments else {}
    for segment in segments:
        together = range(place[segment.outputs[0]], place[segment.outputs[-1]] + 1)
        times[together.start : together.stop] = [together] * len(together)
    return times
