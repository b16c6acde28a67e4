# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""A simulated machine's cores, shared by all that compute as a system's scheduler shares them (simpy)."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

_NOTHING_S = 1e-9
"""Of work left, below which it is done: what rounding leaves."""


class SharedCores:
    """Processor sharing: n that compute on m cores get min(1, m / n) of a core each."""

    def __init__(self, env: Any, cores: int) -> None:
        """``env``: simpy's."""
        self._env = env
        self._cores = cores
        self._working = 0
        self._changed = env.event()

    def work(self, seconds: float, given_up: Any) -> Generator[Any, Any, float]:
        """Compute for so many seconds of a core; how many were done.

        Args:
            given_up: an event that ends it before.
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
