# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""The models that each machine of a fleet holds for its processes, and which processes use them; without torch."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass
from typing import Any

_KEPT_S = 60.0  # kept for so long after its last process has ended, as others may come


@dataclass(slots=True, kw_only=True)
class _Held:
    """A model that a machine holds. ``used_s`` is when a process last used it."""

    reference: Any
    used_s: float
    hosts: set[str]


class HeldModels:
    """Holds references to models as long as processes use them, and a while longer; not thread-safe.

    Times are seconds of any clock.
    """

    def __init__(self) -> None:
        self._held: dict[tuple[str, str], _Held] = {}  # by machine and key

    def __len__(self) -> int:
        return len(self._held)

    def find(self, machine: str, key: str, host: str, now_s: float) -> Any | None:
        """Return the reference to a model on a machine, and note that a process uses it; None: there is none."""
        held = self._held.get((machine, key))
        if held is None:
            return None
        held.hosts.add(host)
        held.used_s = now_s
        return held.reference

    def hold(self, machine: str, key: str, host: str, reference: Any, now_s: float) -> None:
        """Hold a model for a machine, in place of an earlier one, which may be lost."""
        self._held[machine, key] = _Held(reference=reference, used_s=now_s, hosts={host})

    def release(self, hosts: Container[str], now_s: float) -> None:
        """Release models that no living process has used for a while; ``hosts`` are the living ones."""
        for at, held in list(self._held.items()):
            held.hosts = {host for host in held.hosts if host in hosts}
            if held.hosts:
                held.used_s = now_s
            elif now_s - held.used_s > _KEPT_S:
                del self._held[at]
