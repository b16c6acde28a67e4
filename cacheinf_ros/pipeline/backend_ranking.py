# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""Which dense backend is the fastest at the moment, by what frames of the camera take."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from statistics import median

from cacheinf_ros.engine.dense_backends import CLEARLY, DenseBackend

_ENOUGH = 5  # frames to see by that the one in use is slower than another one was
_TO_TRY = 1  # frame of that other one, in case that all have become slower


class BackendRanking:
    """Dense backends of one precision, the fastest first. For one thread at a time."""

    def __init__(self, backends: Sequence[DenseBackend]) -> None:
        """``backends``: at least one, the fastest first."""
        self._backends = tuple(backends)
        self._far: tuple[DenseBackend, ...] = ()  # clearly slower than the best when they were ranked
        self._took_ms: dict[str, list[float]] = {}  # since then, by name
        self._enough = _ENOUGH

    @property
    def best(self) -> DenseBackend:
        """The fastest one."""
        return self._backends[0]

    def in_turn(self, frame: int, burst: int) -> DenseBackend:
        """The one that computes this frame of a burst.

        Every other frame is the fastest one's, the rest are the others' in turn, two each, as an engine on trial goes
        first in every other pair, and only who goes first is timed. Of those that were clearly slower, one computes one
        frame of each burst.
        """
        if self._far and frame == 0:
            return self._far[burst % len(self._far)]
        best, *others = (backend for backend in self._backends if backend not in self._far)
        return others[frame // 4 % len(others)] if others and frame % 2 else best

    def drop(self, backend: DenseBackend) -> bool:
        """Give a backend up that failed; returns whether there is another one: the last one stays."""
        if len(self._backends) < 2:
            return False
        self._backends, self._far = (
            tuple(each for each in backends if each.name != backend.name) for backends in (self._backends, self._far)
        )
        return True

    def took(self, backend: DenseBackend, milliseconds: float) -> None:
        """Note what a frame took."""
        self._took_ms.setdefault(backend.name, []).append(milliseconds)

    def look_again(self) -> bool:
        """Rank anew between bursts where the best takes longer than the next did; returns whether another one leads.

        In bursts, where backends take turns, each may find threads and caches otherwise than alone.
        """
        lately = self._took_ms.get(self.best.name, [])[-self._enough :]
        if len(self._backends) < 2 or len(lately) < self._enough:
            return False
        if median(lately) <= self._backends[1].milliseconds:
            self._enough = _ENOUGH
            return False
        self._took_ms[self.best.name] = lately
        self._rank(unseen=1.0)
        self._enough = _TO_TRY
        return True

    def rank(self) -> None:
        """Rank them by what the frames of a burst took; who computed none is taken to have changed as others did.

        Frames of a burst take longer than those by which backends were measured alone.
        """
        before = {each.name: each.milliseconds for each in self._backends}
        changes = [median(took) / before[name] for name, took in self._took_ms.items()]
        self._rank(unseen=median(changes) if changes else 1.0)

    def _rank(self, unseen: float) -> None:
        """``unseen``: by what the times of those change that have computed nothing since they were ranked."""
        seen = [
            replace(each, milliseconds=median(self._took_ms.get(each.name, [unseen * each.milliseconds])))
            for each in self._backends
        ]
        self._backends = tuple(sorted(seen, key=lambda backend: backend.milliseconds))
        self._far = tuple(each for each in self._backends if CLEARLY * each.milliseconds > self.best.milliseconds)
        self._took_ms.clear()
        self._enough = _ENOUGH

    def forget(self) -> None:
        """Forget what frames took since they were ranked."""
        self._took_ms.clear()
