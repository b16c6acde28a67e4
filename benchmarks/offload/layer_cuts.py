# Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
"""A scheduler that cuts between layers only."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from cacheinf_ros.offload.planning import Machines, Scheduler
from cacheinf_ros.offload.planning.workload import Integers, Numbers
from cacheinf_ros.offload_policy import OffloadPolicy


class LayerCuts(Scheduler):
    """A scheduler that divides frames by the best cut between layers (DADS) while asked to, and else as ours does."""

    def __init__(self, *arguments: Any, only_layers: Callable[[], bool], **keywords: Any) -> None:
        """Build a :class:`Scheduler`; ``only_layers`` tells whether only the cut may be chosen."""
        super().__init__(*arguments, **keywords)
        self._only_layers = only_layers

    def candidates(
        self, policy: OffloadPolicy, around: Machines, mbit_s: float, changed: Numbers
    ) -> Sequence[Integers]:
        """Implement :meth:`Scheduler.candidates`."""
        if policy is OffloadPolicy.CACHEINF and self._only_layers():
            return [self.best_cut(around, mbit_s, changed)]
        return super().candidates(policy, around, mbit_s, changed)
