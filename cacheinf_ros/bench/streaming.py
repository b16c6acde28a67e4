# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Streaming accuracy (Li, Wang, Ramanan: Towards Streaming Perception, ECCV 2020): which answer a user has, and when.

At the time of each frame of the camera, the truth about that frame is compared with the newest answer that has arrived
until then, whichever frame it was computed for. So an answer to the frame itself is too late unless it takes no time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Emission:
    """An answer that arrives.

    Attributes:
        at_ms: when.
        frame: index of the frame that it was computed for.
    """

    at_ms: float
    frame: int


def simulate(took_ms: Sequence[float | None], period_ms: float) -> list[Emission]:
    """Answer the frames of a camera one after another; the latest frame wins, as in the nodes.

    Args:
        took_ms: for each frame how long it takes; None: it is passed over.
        period_ms: between two frames; the first comes at 0.

    Returns:
        the answers that are given, in order. Frames that a later one overtook while they waited have none.
    """
    emissions: list[Emission] = []
    given = [(index, took) for index, took in enumerate(took_ms) if took is not None]
    free_ms = 0.0
    for position, (index, took) in enumerate(given):
        started_ms = max(free_ms, index * period_ms)
        is_last = position + 1 == len(given)
        if not is_last and given[position + 1][0] * period_ms <= started_ms:
            continue
        free_ms = started_ms + took
        emissions.append(Emission(at_ms=free_ms, frame=index))
    return emissions


def newest(emissions: Iterable[Emission], times_ms: Sequence[float]) -> list[int | None]:
    """For each frame of the camera the one whose answer was the newest when it came; None: there was none.

    Args:
        times_ms: when each frame came, ascending.
    """
    arrived = sorted(emissions, key=lambda each: each.at_ms)
    found: list[int | None] = []
    count = 0
    for time_ms in times_ms:
        while count < len(arrived) and arrived[count].at_ms <= time_ms:
            count += 1
        found.append(arrived[count - 1].frame if count else None)
    return found


def newest_of_frames(answered: Iterable[int], frames: int) -> list[int | None]:
    """For each frame the last one up to it that was answered, however late; None: there was none."""
    times = [Emission(at_ms=float(frame), frame=frame) for frame in answered]
    return newest(times, [float(index) for index in range(frames)])


def frames_behind(sources: Sequence[int | None]) -> float | None:
    """How many frames old the newest answers are in the mean; None where there never was one."""
    ages = [index - source for index, source in enumerate(sources) if source is not None]
    return sum(ages) / len(ages) if ages else None


def camera_times(heard_ms: Mapping[int, float], frames: int, period_ms: float) -> list[float]:
    """When each frame came, also those that nobody heard of: between their neighbours, or whole periods beyond them.

    Args:
        heard_ms: by index of the frame, at least one.
    """
    indices = sorted(heard_ms)
    first, last = indices[0], indices[-1]
    between = np.interp(np.arange(frames), indices, [heard_ms[index] for index in indices])
    beyond = np.minimum(np.arange(frames) - first, 0) + np.maximum(np.arange(frames) - last, 0)
    return [float(time) for time in between + period_ms * beyond]
