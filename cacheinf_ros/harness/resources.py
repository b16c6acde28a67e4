# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Samples what processes hold over time (memory, threads, file descriptors), and finds whether that grows."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import psutil
from numpy.typing import ArrayLike
from scipy.stats import linregress

_WARM_UP = 0.25  # share of a process' life in which caches and pools fill
_MB = 1e6
_S_PER_HOUR = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Slope:
    """A straight line through samples after warm-up.

    Attributes:
        samples: number of samples.
        per_hour: slope, in the samples' unit per hour.
        error_per_hour: standard error of the slope, assuming independent samples; memory of one process is not, so that
            the true error is larger.
    """

    samples: int
    per_hour: float
    error_per_hour: float

    @property
    def in_mb(self) -> Slope:
        """The line in MB, where the samples are bytes."""
        return replace(self, per_hour=self.per_hour / _MB, error_per_hour=self.error_per_hour / _MB)


@dataclass(frozen=True, slots=True, kw_only=True)
class Growth:
    """The change of a process between the end of its warm-up and its end.

    Attributes:
        name: name of the process.
        lived_s: for how long it was watched.
        memory_mb: resident memory at the end.
        memory_slope: slope of the resident bytes; None: too few samples.
        threads, descriptors: (least, most) of their numbers after warm-up.
        threads_per_hour, descriptors_per_hour: slopes of straight lines through these numbers.
    """

    name: str
    lived_s: float
    memory_mb: float
    memory_slope: Slope | None
    threads: tuple[int, int]
    descriptors: tuple[int, int]
    threads_per_hour: float
    descriptors_per_hour: float


@dataclass(slots=True)
class _Watched:
    name: str
    process: psutil.Process
    samples: list[tuple[float, int, int, int]] = field(default_factory=list)


class ResourceWatch:
    """Samples processes until they end."""

    def __init__(self) -> None:
        self._watched: list[_Watched] = []

    def watch(self, name: str, pid: int) -> None:
        """Begin to sample a process."""
        with contextlib.suppress(psutil.NoSuchProcess):
            self._watched.append(_Watched(name=name, process=psutil.Process(pid)))

    def sample(self, now_s: float) -> None:
        """Record what each running process holds now."""
        for watched in self._watched:
            with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied):
                process = watched.process
                if process.is_running() and process.status() != psutil.STATUS_ZOMBIE:
                    memory = process.memory_info().rss
                    watched.samples.append((now_s, memory, process.num_threads(), process.num_fds()))

    def resident(self, name: str) -> tuple[int, int] | None:
        """Return the process ID and resident bytes of the latest process of a name; None where it has ended."""
        process = next((each.process for each in reversed(self._watched) if each.name == name), None)
        with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied):
            if process is not None:
                return process.pid, process.memory_info().rss
        return None

    def save(self, path: Path) -> None:
        """Write all samples, one per line: process, seconds, resident bytes, threads and descriptors."""
        with path.open("w", encoding="utf-8") as file:
            file.write("process,seconds,resident_bytes,threads,descriptors\n")
            for watched in self._watched:
                name = f"{watched.name}:{watched.process.pid}"
                file.writelines(
                    f"{name},{','.join(f'{value:.0f}' for value in sample)}\n" for sample in watched.samples
                )

    def growth(self, least_share: float) -> list[Growth]:
        """Return the growth of each process that lived for at least this share of the longest life."""
        lives = [(each.name, np.array(each.samples)) for each in self._watched if len(each.samples) > 1]
        found = [growth_of(name, samples) for name, samples in lives]
        least_s = least_share * max((each.lived_s for each in found), default=0.0)
        return [each for each in found if each.lived_s >= least_s]


def slope_of(times_s: ArrayLike, values: ArrayLike) -> Slope | None:
    """Fit a line to samples in order of time, except those of the warm-up; None: fewer than three are left."""
    times, held = np.asarray(times_s, dtype=float), np.asarray(values, dtype=float)
    is_warm = _is_warm(times)
    if is_warm.sum() < 3:
        return None
    line = linregress(times[is_warm], held[is_warm])
    return Slope(
        samples=int(is_warm.sum()),
        per_hour=float(line.slope) * _S_PER_HOUR,
        error_per_hour=float(line.stderr) * _S_PER_HOUR,
    )


def growth_of(name: str, samples: np.ndarray) -> Growth:
    """Fit lines to samples, float [n, 4]: seconds, resident bytes, threads, descriptors; n > 1, in order of time."""
    times_s = samples[:, 0]
    warm = samples[_is_warm(times_s)]
    memory, *counts = [slope_of(times_s, values) for values in samples[:, 1:].T]
    threads, descriptors = (0.0 if slope is None else slope.per_hour for slope in counts)
    return Growth(
        name=name,
        lived_s=float(times_s[-1] - times_s[0]),
        memory_mb=float(samples[-1, 1]) / _MB,
        memory_slope=memory,
        threads=(int(warm[:, 2].min()), int(warm[:, 2].max())),
        descriptors=(int(warm[:, 3].min()), int(warm[:, 3].max())),
        threads_per_hour=threads,
        descriptors_per_hour=descriptors,
    )


def _is_warm(times_s: np.ndarray) -> np.ndarray:
    return times_s >= times_s[:1] + _WARM_UP * (times_s[-1:] - times_s[:1])
