# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Streaming accuracy (Li, Wang, Ramanan: Towards Streaming Perception, ECCV 2020): which answer a user has, and when.

At the time of each frame of the camera, the truth about that frame is compared with the newest answer that has arrived
by then, whichever frame it was computed for. So an answer to the frame itself is too late unless it takes no time.
"""

from __future__ import annotations

import bisect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Emission:
    """An answer that arrives.

    Attributes:
        at_ms: when the answer arrives.
        frame: index of the frame that it was computed for.
    """

    at_ms: float
    frame: int


def simulate(
    took_ms: Sequence[float | None], period_ms: float, built_on: Sequence[int] | None = None
) -> list[Emission]:
    """Answer the frames of a camera one after another in simulated time; the latest frame wins, as in the nodes.

    This is for ways whose answer to a frame, and its time, do not depend on which frames they saw before. Ways that
    remember more than ``built_on`` tells are run by :func:`answer_at_rate`.

    Args:
        took_ms: the time of each frame; None: the frame is passed over.
        period_ms: time between two frames; the first comes at 0.
        built_on: for each frame the one that its answer is derived from, itself where it is computed. An answer that is
            derived from a frame that was overtaken cannot be given, and frames to be computed go first. None: all are
            computed.

    Returns:
        the answers that are given, in order. Frames that a later one overtook while they waited have none.
    """
    emissions: list[Emission] = []
    waiting = [index for index, took in enumerate(took_ms) if took is not None]
    answered: set[int] = set()
    free_ms = 0.0
    while waiting:
        started_ms = max(free_ms, waiting[0] * period_ms)
        come = waiting[: bisect.bisect_right(waiting, started_ms, key=lambda index: index * period_ms)]
        chosen = next((index for index in reversed(come) if built_on is None or built_on[index] == index), None)
        if chosen is None and built_on is not None and built_on[come[-1]] in answered:
            chosen = come[-1]
        if chosen is not None:
            free_ms = started_ms + (took_ms[chosen] or 0.0)
            emissions.append(Emission(at_ms=free_ms, frame=chosen))
            answered.add(chosen)
        done = come[-1] if chosen is None else chosen
        waiting = waiting[bisect.bisect_right(waiting, done) :]
    return emissions


def answer_at_rate(answer: Callable[[int], tuple[float, float]], frames: int, period_ms: float) -> list[Emission]:
    """Have a way answer the frames of a camera in simulated time: it sees only those that it has time for.

    Args:
        answer: answers the frame of an index; returns the milliseconds that this took, and those of the work after the
            answer, before the next frame. Indices ascend: each is the latest that has come once the one before is done.
        period_ms: time between two frames; the first comes at 0.
    """
    emissions: list[Emission] = []
    index, free_ms = 0, 0.0
    while index < frames:
        started_ms = max(free_ms, index * period_ms)
        while index + 1 < frames and (index + 1) * period_ms <= started_ms:
            index += 1
        took_ms, behind_ms = answer(index)
        emissions.append(Emission(at_ms=started_ms + took_ms, frame=index))
        free_ms = started_ms + took_ms + behind_ms
        index += 1
    return emissions


def held_up_ms(took_ms: float, behind_ms: float, period_ms: float) -> float:
    """Compute by how many milliseconds a frame delays the next one, by work after its answer that is not done in time.

    Args:
        took_ms: time from when the frame came until its answer.
        behind_ms: time of the work after the answer.
        period_ms: time between two frames. Where answers alone take longer than that, frames wait in any case.
    """
    return max(0.0, behind_ms - max(0.0, period_ms - took_ms))


def newest(emissions: Iterable[Emission], times_ms: Sequence[float]) -> list[int | None]:
    """Return for each frame of the camera the one whose answer was the newest when it came; None: there was none.

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
    """Return for each frame the last one up to it that was answered, however late; None: there was none."""
    times = [Emission(at_ms=float(frame), frame=frame) for frame in answered]
    return newest(times, [float(index) for index in range(frames)])


def frames_behind(sources: Sequence[int | None]) -> float | None:
    """Return how many frames old the newest answers are on average; None where there never was one."""
    ages = [index - source for index, source in enumerate(sources) if source is not None]
    return sum(ages) / len(ages) if ages else None


def camera_times(heard_ms: Mapping[int, float], frames: int, period_ms: float) -> list[float]:
    """Return when each frame came; those never heard of lie between their neighbours, or whole periods beyond them.

    Args:
        heard_ms: the known times by index of the frame, at least one.
    """
    indices = sorted(heard_ms)
    first, last = indices[0], indices[-1]
    between = np.interp(np.arange(frames), indices, [heard_ms[index] for index in indices])
    beyond = np.minimum(np.arange(frames) - first, 0) + np.maximum(np.arange(frames) - last, 0)
    return [float(time) for time in between + period_ms * beyond]
