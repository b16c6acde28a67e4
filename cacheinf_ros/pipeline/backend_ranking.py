# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Ranks dense backends by the time that the camera's frames take now."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from statistics import median

from cacheinf_ros.engine.dense_backends import CLEARLY, DenseBackend

_ENOUGH = 5  # frames that must show that the backend in use is slower than another one was
_REMEMBERED = 100  # frames of each backend: all those of a burst, and some before
_TO_TRY = 1  # frames for trying that other one: all backends may have become slower


class BackendRanking:
    """Dense backends of one precision, the fastest first. For one thread at a time."""

    def __init__(self, backends: Sequence[DenseBackend]) -> None:
        """Begin with ``backends``: at least one, the fastest first."""
        self._backends = tuple(backends)
        self._far: tuple[DenseBackend, ...] = ()  # clearly slower than the best when they were ranked
        self._took_ms: dict[str, deque[float]] = {}  # since the ranking, of the last frames of each, by name
        self._enough = _ENOUGH

    @property
    def best(self) -> DenseBackend:
        """The fastest backend."""
        return self._backends[0]

    def in_turn(self, frame: int, burst: int) -> DenseBackend:
        """Return the backend that computes this frame of a burst.

        Every other frame goes to the fastest backend. The rest go to the others in turn, two each, because an engine on
        trial goes first in every other pair, and only who goes first is timed. Of the backends that were clearly
        slower, one computes one frame of each burst.
        """
        if self._far and frame == 0:
            return self._far[burst % len(self._far)]
        best, *others = (backend for backend in self._backends if backend not in self._far)
        return others[frame // 4 % len(others)] if others and frame % 2 else best

    def drop(self, backend: DenseBackend) -> bool:
        """Give up a backend that failed; returns whether another one takes over: the last one stays."""
        if len(self._backends) < 2:
            return False
        self._backends = tuple(each for each in self._backends if each.name != backend.name)
        self._far = tuple(each for each in self._clearly_slower() if each in self._far)
        self._took_ms.pop(backend.name, None)
        return True

    def took(self, backend: DenseBackend, milliseconds: float) -> None:
        """Note how long a frame took."""
        self._took_ms.setdefault(backend.name, deque(maxlen=_REMEMBERED)).append(milliseconds)

    def look_again(self) -> bool:
        """Rank again between bursts where the best is slower than the next was; returns whether another one leads.

        In bursts, where backends take turns, threads and processor caches may be in another state than for one alone.
        """
        lately = list(self._took_ms.get(self.best.name, ()))[-self._enough :]
        if len(self._backends) < 2 or len(lately) < self._enough:
            return False
        if median(lately) <= self._backends[1].milliseconds:
            self._enough = _ENOUGH
            return False
        self._took_ms[self.best.name] = deque(lately)
        self._rank(unseen=1.0)
        self._enough = _TO_TRY
        return True

    def rank(self) -> None:
        """Rank by the times of a burst's frames; a backend without frames is assumed to have changed like the others.

        Frames of a burst take longer than those on which each backend was measured alone.
        """
        before = {each.name: each.milliseconds for each in self._backends}
        changes = [median(took) / before[name] for name, took in self._took_ms.items()]
        self._rank(unseen=median(changes) if changes else 1.0)

    def _rank(self, unseen: float) -> None:
        """Rank by median times; ``unseen``: factor for backends that computed nothing since the last ranking."""
        seen = [
            replace(each, milliseconds=median(self._took_ms.get(each.name, [unseen * each.milliseconds])))
            for each in self._backends
        ]
        self._backends = tuple(sorted(seen, key=lambda backend: backend.milliseconds))
        self._far = self._clearly_slower()
        self._took_ms.clear()
        self._enough = _ENOUGH

    def _clearly_slower(self) -> tuple[DenseBackend, ...]:
        """Return the backends that are clearly slower than the best."""
        return tuple(each for each in self._backends if CLEARLY * each.milliseconds > self.best.milliseconds)

    def forget(self) -> None:
        """Forget what frames took since they were ranked."""
        self._took_ms.clear()
