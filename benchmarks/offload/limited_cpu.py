# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Limits a process to a fraction of a processor, to stand for a robot's slow computer."""

from __future__ import annotations

import math
import os
import signal
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Self

from cacheinf_ros.errors import CacheinfError, ConfigError

_ROOT = Path("/sys/fs/cgroup")
_PERIOD_US = 5000  # short, so that a frame is slowed down and not stopped
_LEAST_QUOTA_US = 1000  # of the kernel
_CYCLE_S = 0.02


class LimitedCpu:
    """A control group with a share of a processor, or of several; a context manager. It needs root.

    Attributes:
        kind: the name of this kind of limit, for reports.
    """

    kind = "cgroup"

    def __init__(self, cores: float) -> None:
        """Prepare a limit of ``cores`` processors' worth of time."""
        self._cores = cores
        self._is_second = (_ROOT / "cgroup.controllers").exists()
        self._folder = (_ROOT if self._is_second else _ROOT / "cpu") / f"cacheinf{os.getpid()}"

    def __enter__(self) -> Self:
        period = max(_PERIOD_US, math.ceil(_LEAST_QUOTA_US / self._cores))
        quota = round(self._cores * period)
        try:
            self._folder.mkdir()
            if self._is_second:
                (self._folder / "cpu.max").write_text(f"{quota} {period}")
            else:
                (self._folder / "cpu.cfs_period_us").write_text(str(period))
                (self._folder / "cpu.cfs_quota_us").write_text(str(quota))
        except OSError as error:
            self.__exit__()
            raise CacheinfError(f"limiting the robot's processor time needs root and control groups: {error}") from None
        return self

    def __exit__(self, *raised: object) -> None:
        with suppress(OSError):
            self._folder.rmdir()

    def take(self, pid: int) -> None:
        """Put a process, with all its threads, under the limit."""
        (self._folder / "cgroup.procs").write_text(str(pid))


class DutyCycle:
    """Limits processes without root, by stopping and continuing them; a context manager.

    With a whole processor or more, processes are pinned to so many processors instead.
    """

    def __init__(self, cores: float) -> None:
        """Prepare a limit of ``cores`` processors' worth of time.

        Raises:
            ConfigError: they are more than one, and no whole number.
        """
        if cores > 1 and cores != int(cores):
            raise ConfigError(f"{cores:g} processors: without root a number above 1 must be whole")
        self.kind = "duty cycle" if cores < 1 else "affinity"
        self._cores = cores
        self._pids: list[int] = []
        self._lock = threading.Lock()
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        if self._cores < 1:
            self._thread.start()
        return self

    def __exit__(self, *raised: object) -> None:
        self._done.set()
        if self._thread.is_alive():
            self._thread.join()

    def take(self, pid: int) -> None:
        """Put a process, with all its threads, under the limit until it ends."""
        if self._cores >= 1:
            allowed = sorted(os.sched_getaffinity(pid))[: int(self._cores)]
            for thread in Path(f"/proc/{pid}/task").iterdir():
                os.sched_setaffinity(int(thread.name), allowed)
        with self._lock:
            self._pids.append(pid)

    def _run(self) -> None:
        runs_s = self._cores * _CYCLE_S
        while not self._done.is_set():
            self._send(signal.SIGSTOP)
            self._done.wait(_CYCLE_S - runs_s)
            self._send(signal.SIGCONT)
            time.sleep(runs_s)

    def _send(self, number: signal.Signals) -> None:
        with self._lock:
            for pid in list(self._pids):
                try:
                    os.kill(pid, number)
                except ProcessLookupError:
                    self._pids.remove(pid)
