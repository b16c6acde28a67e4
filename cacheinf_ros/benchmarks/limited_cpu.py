"""Gives a process a fraction of a processor: a robot's slow computer."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from cacheinf_ros.errors import CacheinfError

_ROOT = Path("/sys/fs/cgroup")
_PERIOD_US = 5000  # short, so that a frame is slowed down and not stopped


class LimitedCpu:
    """A control group with a share of a processor, or of several; use as a context manager."""

    def __init__(self, cores: float) -> None:
        """``cores``: processors' worth of time."""
        self._cores = cores
        self._is_second = (_ROOT / "cgroup.controllers").exists()
        self._folder = (_ROOT if self._is_second else _ROOT / "cpu") / f"cacheinf{os.getpid()}"

    def __enter__(self) -> Self:
        quota = max(1000, round(self._cores * _PERIOD_US))
        try:
            self._folder.mkdir()
            if self._is_second:
                (self._folder / "cpu.max").write_text(f"{quota} {_PERIOD_US}")
            else:
                (self._folder / "cpu.cfs_period_us").write_text(str(_PERIOD_US))
                (self._folder / "cpu.cfs_quota_us").write_text(str(quota))
        except OSError as error:
            self.__exit__(None, None, None)
            raise CacheinfError(f"limiting the robot's processor time needs root and control groups: {error}") from None
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with suppress(OSError):
            self._folder.rmdir()

    def take(self, pid: int) -> None:
        """Put a process, with all its threads, under the limit."""
        (self._folder / "cgroup.procs").write_text(str(pid))
