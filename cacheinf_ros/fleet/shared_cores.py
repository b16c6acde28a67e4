# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""A simulated machine's cores, shared as an operating system's scheduler shares them (simpy)."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

_NOTHING_S = 1e-9
"""The work left, in seconds, below which it counts as done: a rounding error."""


class SharedCores:
    """Processor sharing: n jobs on m cores get min(1, m / n) of a core each."""

    def __init__(self, env: Any, cores: int) -> None:
        """Prepare; ``env`` is simpy's environment."""
        self._env = env
        self._cores = cores
        self._working = 0
        self._changed = env.event()

    def work(self, seconds: float, given_up: Any) -> Generator[Any, Any, float]:
        """Compute for so many seconds of core time; returns how many were done.

        Args:
            seconds: the core time.
            given_up: an event that ends the work early.
        """
        left_s = seconds
        self._join(1)
        try:
            while left_s > _NOTHING_S and not given_up.processed:
                began, speed = self._env.now, min(1.0, self._cores / self._working)
                yield self._env.timeout(left_s / speed) | self._changed | given_up
                left_s -= speed * (self._env.now - began)
        finally:
            self._join(-1)
        return seconds - max(0.0, left_s)

    def _join(self, by: int) -> None:
        self._working += by
        changed, self._changed = self._changed, self._env.event()
        changed.succeed()
